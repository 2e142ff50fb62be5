"""The place of one source of a run on the time of day of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ClockMethod = Literal["reference", "steps", "stamps", "none"]


@dataclass(frozen=True)
class SourceClock:
    """The place of one source on the time of day of ``to``.

    ``offset_ns`` is added to its times, which may then be off by ``residual_ns``; None where it cannot be placed.
    ``step_shift`` is added to its step numbers, None where it is not known.
    """

    source: str
    method: ClockMethod
    to: str = ""
    offset_ns: float | None = None
    residual_ns: float | None = None
    matched: int = 0
    step_shift: int | None = None
    why: str = ""  # why it cannot be placed, or what the offset rests on

    @property
    def placed(self) -> bool:
        """Whether its times can be held against those of the other sources."""
        return self.offset_ns is not None


def step_shift(clocks: Sequence[SourceClock], source: str, to: str) -> int | None:
    """What to add to the step numbers of one source to get those of another; None where that is not known."""
    own, other = _to_reference(clocks, source), _to_reference(clocks, to)
    return None if own is None or other is None else own - other


def _to_reference(clocks: Sequence[SourceClock], source: str) -> int | None:
    """The same to the numbers of the reference; each source is placed on one that comes before it."""
    known = clock_of(clocks, source)
    if known is None or known.step_shift is None:
        return None
    if known.method == "reference":
        return 0
    rest = _to_reference(clocks, known.to)
    return None if rest is None else known.step_shift + rest


def clock_of(clocks: Sequence[SourceClock], source: str) -> SourceClock | None:
    """The clock of the source of that name; None where it was not compared."""
    return next((each for each in clocks if each.source == source), None)
