"""The closed set of causes, each with its names and what to change (``causes.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tools.knowledge.tables import table

EFFORTS = {1: "minutes", 2: "hours", 3: "days"}


@dataclass(frozen=True)
class Name:
    """A display name: as a heading, and as the subject of a sentence with its number."""

    title: str
    phrase: str
    plural: bool = False


@dataclass(frozen=True)
class Optimization:
    """One change to make. ``effort`` is a key of ``EFFORTS``; ``{ranks}`` in the title stands for the ranks."""

    optimization: str
    how: str
    effort: int
    risk: str
    verify: str
    mechanism: str | None = None
    from_capability: float | None = None  # compute capability of the device it fits, and above
    below_capability: float | None = None
    hardware: tuple[str, ...] = ()  # kinds of hardware it fits: host, nvidia, amd, accelerator; () is any
    exchanged_by: str | None = None  # what exchanges the gradients where it fits: ddp, script; None is any

    def title(self, ranks: str = "the late rank") -> str:
        """The heading, for the ranks concerned."""
        return self.optimization.replace("{ranks}", ranks)

    def fits(self, capability: float | None, kind: str | None = None, exchanged_by: str | None = None) -> bool:
        """Return whether it suits that hardware and what exchanges the gradients; what is unknown rules nothing out."""
        if kind is not None and self.hardware and kind not in self.hardware:
            return False
        if exchanged_by is not None and self.exchanged_by not in (None, exchanged_by):
            return False
        if capability is None:
            return True
        above = self.from_capability is None or capability >= self.from_capability
        return above and (self.below_capability is None or capability < self.below_capability)


@dataclass(frozen=True)
class Appearance:
    """What one check that finds a cause says of it in any run: not its figures."""

    disproved_by: str  # what observation would refute it
    signals: Sequence[str] = ()
    against: Sequence[str] = ()


@dataclass(frozen=True)
class Cause:
    """One cause of slow training; ``mechanisms`` are finer ids for how it happens."""

    id: str
    family: str
    name: Name
    signals: tuple[str, ...]
    optimizations: tuple[str, ...]
    mechanism_names: Mapping[str, Name]
    advice: tuple[Optimization, ...]
    found_by: Mapping[str, Appearance]  # by name of the check
    open_mechanisms: frozenset[str] = frozenset()  # those that name a loss without how it happens

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Ids of the mechanisms."""
        return tuple(self.mechanism_names)

    def called(self, mechanism: str | None) -> Name:
        """The name of the mechanism where one is known, else of the cause."""
        return self.mechanism_names.get(mechanism or "", self.name)


@lru_cache(maxsize=1)
def causes() -> dict[str, Cause]:
    """All causes by id."""
    return {
        name: Cause(
            name,
            entry["family"],
            _name(entry),
            tuple(entry["signals"]),
            tuple(entry["optimizations"]),
            {each: _name(row) for each, row in entry.get("mechanisms", {}).items()},
            tuple(Optimization(**row | {"hardware": tuple(row.get("hardware", ()))}) for row in entry["advice"]),
            {check: Appearance(**row) for check, row in entry.get("found_by", {}).items()},
            frozenset(each for each, row in entry.get("mechanisms", {}).items() if row.get("open", False)),
        )
        for name, entry in table("causes")["causes"].items()
    }


def known_mechanism(mechanism: str | None) -> str | None:
    """The mechanism where it says how a cause happens; None where it leaves that open."""
    left_open = any(mechanism in cause.open_mechanisms for cause in causes().values())
    return None if left_open else mechanism


def _name(entry: Mapping[str, Any]) -> Name:
    title = entry["title"]
    return Name(title, entry.get("phrase", title[:1].lower() + title[1:]), entry.get("plural", False))


def family_of(cause: str) -> str:
    """The family a cause belongs to."""
    return causes()[cause].family


def optimizations(
    cause: str,
    mechanism: str | None,
    capability: float | None = None,
    kind: str | None = None,
    exchanged_by: str | None = None,
) -> tuple[Optimization, ...]:
    """Return the changes for this cause: those for its mechanism that suit the run, else those for any."""
    known = causes().get(cause)
    rows = tuple(row for row in known.advice if row.fits(capability, kind, exchanged_by)) if known else ()
    exact = tuple(row for row in rows if mechanism is not None and row.mechanism == mechanism)
    return exact or tuple(row for row in rows if row.mechanism is None)
