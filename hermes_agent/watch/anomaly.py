"""Anomalies that the agent notices, and the processes outside of the run that used the machine's cores."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import psutil


class AnomalyKind(StrEnum):
    """Kinds of anomalies."""

    SPIKE = "spike"
    CHANGE = "change"
    RECOVERY = "recovery"
    DRIFT = "drift"
    STALL = "periodic_stall"
    SLOW_RANK = "slow_rank"
    RANK_CHANGE = "rank_change"
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
    count: int = 1  # spikes from ``step`` to ``noticed``
    longest_ms: float = 0.0  # of several spikes; ``seen_ms`` is their median

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
    contention: bool = False  # waiting for a free core explains it: another job on the machine, not this training

    @property
    def rank(self) -> int:
        """The suspect's rank, ``NO_RANK`` when there is none."""
        return self.suspect.rank if self.suspect else NO_RANK

    @property
    def cost_ms(self) -> float:
        """The excess per step, that of the suspect's own time where a rank is compared with others."""
        if self.suspect is not None and self.deviation.kind is AnomalyKind.RANK_CHANGE:
            return self.suspect.excess_ms
        return self.deviation.cost_ms

    @property
    def claim(self) -> str:
        """One sentence."""
        seen = self.deviation
        times = {"usual": seen.usual_ms, "seen": seen.seen_ms, "seen_s": seen.seen_ms / 1e3, "share": seen.excess_pct}
        where = {"step": seen.step, "noticed": seen.noticed, "every": seen.every, "count": seen.count}
        begin = (_SPIKES if seen.count > 1 else _BEGINNINGS[seen.kind]).format(
            **where, **times, longest=seen.longest_ms
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
    AnomalyKind.RANK_CHANGE: "since step {step} one rank's own time is {seen:.1f} ms per step, before {usual:.1f} ms, "
    "the others' did not grow as much",
    AnomalyKind.SILENT: "a rank is silent since step {step}",
    AnomalyKind.HANG: "no step has ended for {seen_s:.0f} s while the processes live, step {step} is open, "
    "usually it takes {usual:.1f} ms",
}
_SPIKES = (
    "{count} single long steps from step {step} to {noticed}: {seen:.1f} ms at the median, {longest:.1f} ms at most, "
    "usually {usual:.1f} ms"
)


WINDOW_S = 0.3
LEAST_PCT = 20.0  # of one core
MOST_NAMED = 5


@dataclass(frozen=True)
class Foreign:
    """A process outside of the run; 100 % is one core."""

    name: str
    cpu_pct: float


def foreign_processes(own: set[int], window_s: float = WINDOW_S) -> tuple[Foreign, ...]:
    """The busiest processes over ``window_s`` seconds that are not the processes ``own``, their children or parents."""
    before = _cpu_seconds()
    begun = time.monotonic()
    time.sleep(window_s)
    after = _cpu_seconds()
    span_s = time.monotonic() - begun
    ours = _family(own | {psutil.Process().pid}, {pid: each.parent for pid, each in after.items()})
    found = [
        Foreign(now.name, 100 * (now.cpu_s - before[pid].cpu_s) / span_s)
        for pid, now in after.items()
        if pid in before and pid not in ours and now.begun == before[pid].begun
    ]
    busy = sorted((each for each in found if each.cpu_pct >= LEAST_PCT), key=lambda each: -each.cpu_pct)
    return tuple(busy[:MOST_NAMED])


class _Seen(NamedTuple):
    name: str
    parent: int
    cpu_s: float
    begun: float


def _cpu_seconds() -> dict[int, _Seen]:
    seen: dict[int, _Seen] = {}
    for process in psutil.process_iter(["name", "ppid", "cpu_times", "create_time"]):
        info = process.info
        if info["cpu_times"] is None:
            continue  # not ours to look at
        times = info["cpu_times"]
        name = "".join(each for each in str(info["name"] or "?") if each.isprintable())[:40]
        seen[process.pid] = _Seen(name, info["ppid"] or 0, times.user + times.system, info["create_time"] or 0.0)
    return seen


def _family(own: set[int], parents: dict[int, int]) -> set[int]:
    """The processes, all that they started, and those that started them."""
    family = set(own)
    while more := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= more
    above: set[int] = set()
    for pid in own:
        while (pid := parents.get(pid, 0)) > 1 and pid not in above:  # numbers are used again: they may form a ring
            above.add(pid)
    return family | above
