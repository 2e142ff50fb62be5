"""Anomalies that the agent notices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AnomalyKind(StrEnum):
    """Kinds of anomalies."""

    SPIKE = "spike"
    CHANGE = "change"
    RECOVERY = "recovery"
    DRIFT = "drift"
    STALL = "periodic_stall"
    SLOW_RANK = "slow_rank"
    SILENT = "silent_rank"
    HANG = "hang"


NO_RANK = -1


@dataclass(frozen=True)
class Deviation:
    """A series left its usual level at ``step``; ``noticed`` is the step at which that was clear."""

    kind: AnomalyKind
    step: int
    noticed: int
    usual_ms: float
    seen_ms: float
    every: int = 0  # steps between stalls

    @property
    def excess_ms(self) -> float:
        """The time above the usual."""
        return self.seen_ms - self.usual_ms

    @property
    def excess_pct(self) -> float:
        """The excess as a share of the usual."""
        return 100 * self.excess_ms / self.usual_ms if self.usual_ms > 0 else 0.0

    @property
    def cost_ms(self) -> float:
        """The excess per step: a stall is spread over the steps between two of them."""
        return self.excess_ms / max(self.every, 1)


@dataclass(frozen=True)
class Suspect:
    """The rank that a deviation comes from, the part of its step that grew most, and by how much."""

    rank: int
    part: str
    excess_ms: float


@dataclass(frozen=True)
class Anomaly:
    """A deviation with whoever is behind it."""

    deviation: Deviation
    suspect: Suspect | None
    why_no_suspect: str = ""

    @property
    def rank(self) -> int:
        """The suspect's rank, ``NO_RANK`` when there is none."""
        return self.suspect.rank if self.suspect else NO_RANK

    @property
    def claim(self) -> str:
        """One sentence."""
        seen = self.deviation
        begin = _BEGINNINGS[seen.kind].format(
            step=seen.step,
            usual=seen.usual_ms,
            seen=seen.seen_ms,
            seen_s=seen.seen_ms / 1e3,
            share=seen.excess_pct,
            every=seen.every,
        )
        if self.suspect is None:
            return f"{begin}; {self.why_no_suspect}" if self.why_no_suspect else begin
        if seen.kind is AnomalyKind.SILENT:
            return f"{begin}: rank {self.suspect.rank}"
        if seen.kind is AnomalyKind.HANG:
            return f"{begin}; rank {self.suspect.rank} has not ended it, all others have"
        return f"{begin}; rank {self.suspect.rank}: {self.suspect.part} took {self.suspect.excess_ms:.1f} ms more"


_BEGINNINGS = {
    AnomalyKind.SPIKE: "step {step} took {seen:.1f} ms, {share:.0f} % over the usual {usual:.1f} ms",
    AnomalyKind.CHANGE: "since step {step} a step takes {seen:.1f} ms, {share:.0f} % over the {usual:.1f} ms before",
    AnomalyKind.RECOVERY: "since step {step} a step takes {seen:.1f} ms, less than the {usual:.1f} ms before",
    AnomalyKind.DRIFT: "steps grew slowly from {usual:.1f} to {seen:.1f} ms ({share:.0f} %) until step {step}",
    AnomalyKind.STALL: "every {every} steps one takes {seen:.1f} ms instead of {usual:.1f} ms, last at step {step}",
    AnomalyKind.SLOW_RANK: "one rank delays the others: {seen:.1f} against {usual:.1f} ms of own time at step {step}",
    AnomalyKind.SILENT: "a rank is silent since step {step}",
    AnomalyKind.HANG: "no step has ended for {seen_s:.0f} s while the processes live, step {step} is open, "
    "usually it takes {usual:.1f} ms",
}
