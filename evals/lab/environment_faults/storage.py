"""Surroundings that make the training's storage slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evals.lab.environment_faults.commands import beside
from evals.lab.environment_faults.leftovers import own_folder
from evals.lab.environment_faults.placement import Placement
from evals.lab.environment_faults.store import ADDRESS


@dataclass(frozen=True)
class SlowStore:
    """The launch's folder behind a store that all ranks share; ``store.store_of`` finds it or, without it, the folder.

    All requests together get ``mbyte_per_s`` (million bytes per second); each waits ``latency_ms`` first.
    """

    mbyte_per_s: float
    latency_ms: float = 0.0

    def missing(self) -> str:
        return ""

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        with own_folder() as own:
            address = str(own / "store")
            arguments = (address, str(folder), str(self.mbyte_per_s * 1e6), str(self.latency_ms / 1e3))
            with beside("store_server", *arguments):
                yield tuple(Placement(environment={ADDRESS: address}) for _ in range(ranks))
