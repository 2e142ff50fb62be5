"""Which host names stand for one machine: containers count the cores of the machine that they share."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

TICKS_PER_S = 100.0  # USER_HZ, the unit of /proc/stat on every Linux
TOLERANCE_S = 1.0  # of all cores: samples of two processes are a moment apart


@dataclass(frozen=True)
class Counted:
    """The last sample of a host's cores: unix time, cores, their ticks since boot, and idle ticks per second."""

    time_s: float
    cores: float
    total_ticks: float
    idle_ticks: float
    idle_per_s: float

    @property
    def booted_s(self) -> float:
        """Unix time at which the ticks began."""
        return self.time_s - self.total_ticks / TICKS_PER_S / max(self.cores, 1.0)

    def idle_at(self, time_s: float) -> float:
        """Seconds that all cores together had been idle at another time."""
        return (self.idle_ticks + self.idle_per_s * (time_s - self.time_s)) / TICKS_PER_S / max(self.cores, 1.0)


def same_machines(
    hosts: Sequence[tuple[tuple[int, ...], Counted | None]], spoken_for: Set[int] = frozenset()
) -> tuple[tuple[int, ...], ...]:
    """The ranks of each machine, from the ranks of each host name and what was counted there.

    Hosts are one machine where their cores began to count at the same moment and have idled equally long since. Ranks
    that another one speaks for (their local rank is not 0) belong to the counted machine where there is only one.
    """
    machines = _by_counts(hosts)
    silent = [ranks for ranks, counted in hosts if counted is None]
    if len(machines) == 1:
        joined = [ranks for ranks in silent if spoken_for >= set(ranks)]
        machines = [tuple(sorted({*machines[0], *(rank for ranks in joined for rank in ranks)}))]
        silent = [ranks for ranks in silent if ranks not in joined]
    return (*machines, *silent)


def _by_counts(hosts: Sequence[tuple[tuple[int, ...], Counted | None]]) -> list[tuple[int, ...]]:
    result: list[tuple[int, ...]] = []
    known = [(ranks, counted) for ranks, counted in hosts if counted is not None]
    if not known:
        return []
    now_s = known[0][1].time_s
    known.sort(key=lambda each: (each[1].cores, each[1].idle_at(now_s)))
    together, last = known[0]
    for ranks, counted in known[1:]:
        if _alike(last, counted, now_s):
            together = tuple(sorted({*together, *ranks}))
        else:
            result.append(together)
            together = ranks
        last = counted
    return [*result, together]


def _alike(one: Counted, other: Counted, now_s: float) -> bool:
    booted = abs(one.booted_s - other.booted_s) <= TOLERANCE_S
    return booted and one.cores == other.cores and abs(one.idle_at(now_s) - other.idle_at(now_s)) <= TOLERANCE_S
