"""What surrounds a recorded training on its machine, and how each rank is placed in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evals.lab.environment_faults.commands import EnvironmentFaultError


@dataclass(frozen=True)
class Placement:
    """How one rank's process is started."""

    prefix: tuple[str, ...] = ()  # command words before the rank's own command; they end in an exec, so the pid stays
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the rank's environment


class EnvironmentFault(Protocol):
    """Something outside the training's processes that makes it slow."""

    def missing(self) -> str:
        """Empty when it can be set up on this machine, else one clause saying why not."""
        ...

    def around(self, ranks: int, folder: Path) -> AbstractContextManager[tuple[Placement, ...]]:
        """Set it up for a training of ``ranks`` processes run in ``folder``; gives one placement per rank.

        Leaving the context takes everything down again. Raises EnvironmentFaultError where it cannot be set up.
        """
        ...


def all_missing(environment_faults: Sequence[EnvironmentFault]) -> str:
    """Empty when all can be set up on this machine, else the clauses that say why not."""
    return "; ".join(dict.fromkeys(filter(None, (each.missing() for each in environment_faults))))


@contextmanager
def surrounded(
    environment_faults: Sequence[EnvironmentFault], ranks: int, folder: Path
) -> Iterator[tuple[Placement, ...]]:
    """Set up all faults at once. The first prefix is the outermost, so LinkedHosts, which hides the control groups
    from what it starts, comes after CpuQuota."""
    lacking = all_missing(environment_faults)
    if lacking:
        raise EnvironmentFaultError(f"this machine cannot surround the training as asked: {lacking}")
    with ExitStack() as stack:
        layers = [stack.enter_context(each.around(ranks, folder)) for each in environment_faults]
        yield tuple(_joined([layer[rank] for layer in layers]) for rank in range(ranks))


def _joined(placements: Sequence[Placement]) -> Placement:
    environment: dict[str, str] = {}
    for each in placements:
        environment.update(each.environment)
    return Placement(tuple(word for each in placements for word in each.prefix), environment)
