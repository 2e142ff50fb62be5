"""One rank's step by what it is spent on: the rank's own time by part, and what it waited for a core."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from hermes_agent.monitor.format import UNKNOWN_US, StepRecord

OTHER_WORK = "other work of its own"
SPINNING = 0.9  # share of the step without what it waits for a core
WHOLE_STEP = "the whole step"  # of ranks that do not wait for each other


@dataclass(frozen=True)
class Parts:
    """One rank's step in ms; ``own_ms`` is None where only data wait and collection are known to be its own.

    ``core_wait_ms`` is what the training thread was ready to run and no core was free; it is no part of the own time.
    """

    wall_ms: float
    data_wait_ms: float
    gc_ms: float
    own_ms: float | None
    core_wait_ms: float = 0.0
    cpu_ms: float = 0.0  # of the training thread

    @property
    def share_ms(self) -> dict[str, float]:
        """The rank's own time, by part; waiting for a core is taken from all of them alike."""
        named = {"data wait": self.data_wait_ms, "garbage collection": self.gc_ms}
        if self.own_ms is None:
            return named
        named[OTHER_WORK] = max(self.own_ms - self.data_wait_ms - self.gc_ms, 0.0)
        own_ms = sum(named.values())
        running = max(own_ms - self.core_wait_ms, 0.0) / own_ms if own_ms else 0.0
        return {name: running * value for name, value in named.items()}

    @property
    def known_ms(self) -> float:
        """All that is known to be the rank's own."""
        return sum(self.share_ms.values())


def parts_of(record: StepRecord, core_wait_ms: float = 0.0) -> Parts:
    """Return the parts of a record."""
    own_ms = None if record.own_us == UNKNOWN_US else record.own_us / 1e3
    if own_ms is None and record.waiting_us:
        own_ms = (record.wall_us - record.waiting_us) / 1e3
    # A collection may lie inside the data wait; counted twice it would only blur, not invent.
    return Parts(
        record.wall_us / 1e3,
        record.data_wait_us / 1e3,
        record.gc_us / 1e3,
        own_ms,
        core_wait_ms,
        record.thread_cpu_us / 1e3,
    )


def usual_shares(steps: Iterable[Parts]) -> dict[str, float]:
    """Return the medians of the own time's parts over some steps, in ms."""
    shares = [each.share_ms for each in steps]
    names = sorted({name for each in shares for name in each})
    return {name: median(each.get(name, 0.0) for each in shares) for name in names}


def own_times(parts: dict[int, Parts]) -> dict[int, float]:
    """Return each rank's own time in ms, without what it waited for a core."""
    return {rank: each.known_ms for rank, each in parts.items()}


def cpu_times(parts: dict[int, Parts]) -> dict[int, float]:
    """Return the training threads' CPU time in ms, on which other jobs have little influence; empty if not recorded."""
    times = {rank: each.cpu_ms for rank, each in parts.items()}
    return times if all(each > 0.0 for each in times.values()) else {}


def may_spin(steps: Iterable[dict[int, Parts]]) -> bool:
    """Return whether a thread is on its core for nearly all of the time in which it could be.

    Such a thread may wait for others or for a device by spinning, so that its CPU time grows with what it waits for.
    """
    on_core_ms: dict[int, float] = {}
    at_most_ms: dict[int, float] = {}
    for parts in steps:
        for rank, each in parts.items():
            on_core_ms[rank] = on_core_ms.get(rank, 0.0) + each.cpu_ms
            at_most_ms[rank] = at_most_ms.get(rank, 0.0) + each.wall_ms - each.core_wait_ms
    return any(on_core_ms[rank] > SPINNING * at_most_ms[rank] for rank in on_core_ms)


def above_others(values: dict[int, float]) -> dict[int, float]:
    """Return by how much each rank's value is above the median of the others'."""
    if len(values) < 2:
        return {}
    return {rank: own - median(each for other, each in values.items() if other != rank) for rank, own in values.items()}
