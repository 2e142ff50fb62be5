"""Samples of hosts and their processes; host names of one machine, whose cores containers share."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.model import Run
from tools.run.recorded.records import MonitorRecords, RankEnvironment, flag_values, last_environment
from tools.views.steps.series import RunSeries

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
    """Ranks of each machine: host names are one machine if their cores count from one boot and idled equally."""
    machines = _by_counts(hosts)
    silent = [ranks for ranks, counted in hosts if counted is None]
    if len(machines) == 1:
        joined = [ranks for ranks in silent if spoken_for >= set(ranks)]
        machines = [tuple(sorted({*machines[0], *(rank for ranks in joined for rank in ranks)}))]
        silent = [ranks for ranks in silent if ranks not in joined]
    return (*machines, *silent)


def _by_counts(hosts: Sequence[tuple[tuple[int, ...], Counted | None]]) -> list[tuple[int, ...]]:
    known = [(ranks, counted) for ranks, counted in hosts if counted is not None]
    if not known:
        return []
    now_s = known[0][1].time_s
    known.sort(key=lambda each: (each[1].cores, each[1].idle_at(now_s)))
    result, last = [known[0][0]], known[0][1]
    for ranks, counted in known[1:]:
        if _alike(last, counted, now_s):
            result[-1] = tuple(sorted({*result[-1], *ranks}))
        else:
            result.append(ranks)
        last = counted
    return result


def _alike(one: Counted, other: Counted, now_s: float) -> bool:
    booted = abs(one.booted_s - other.booted_s) <= TOLERANCE_S
    return booted and one.cores == other.cores and abs(one.idle_at(now_s) - other.idle_at(now_s)) <= TOLERANCE_S


US_PER_S = 1e6
NS_PER_S = 1e9
LEAST_S = 0.3  # less sampled time than this gives no rate
WIDE, MIXED = 0.9, 0.5  # of a span between samples that usual steps fill: nearly all of it, and enough for a bound


@dataclass(frozen=True, eq=False)
class HostRecords:
    """Samples of all ranks with the usual steps; ``sampled`` is the whole run where too little was sampled."""

    records: MonitorRecords
    series: RunSeries
    sampled: RunSeries

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that were sampled, ascending."""
        return tuple(sorted(self._samples))

    def environment(self, rank: int) -> RankEnvironment | None:
        """The last recorded settings of the rank; None where there are none."""
        return last_environment(self.records.environments, rank)

    def flags(self, rank: int, flag: str) -> tuple[bool | str, ...]:
        """Every value that one of torch's switches was seen with."""
        return flag_values(self.records.environments, rank, flag)

    def samples(self, rank: int) -> pd.DataFrame:
        """All samples of one rank in order of time."""
        return self._samples.get(rank, self.records.system.iloc[:0])

    @cached_property
    def _samples(self) -> dict[int, pd.DataFrame]:
        grouped = self.records.system.groupby("rank")
        return {int(own["rank"].iloc[0]): own.sort_values("unix_ns", ignore_index=True) for _, own in grouped}

    @cached_property
    def hosts(self) -> dict[str, tuple[int, ...]]:
        """The ranks of each machine, by its name."""
        hosts = dict.fromkeys(each.host for each in self.records.ranks)
        return {host: tuple(sorted({each.rank for each in self.records.ranks if each.host == host})) for host in hosts}

    def neighbours(self, rank: int) -> tuple[int, ...]:
        """The ranks that share the host name and so the interfaces of this rank, itself among them."""
        return next((ranks for ranks in self.hosts.values() if rank in ranks), (rank,))

    def around(self, rank: int) -> tuple[int, ...]:
        """The ranks that share this machine's cores, itself included; containers have names of their own."""
        return next((ranks for ranks in self._machines if rank in ranks), (rank,))

    @cached_property
    def _machines(self) -> tuple[tuple[int, ...], ...]:
        speaking = {each.rank for each in self.records.ranks if not each.local_rank}
        counted = [(ranks, self._counted(ranks)) for ranks in self.hosts.values()]
        return same_machines(counted, {rank for rank in self.ranks if rank not in speaking})

    def _counted(self, ranks: tuple[int, ...]) -> Counted | None:
        for rank in ranks:
            known = self.samples(rank).dropna(subset=["cpu_total_ticks", "cpu_idle_ticks", "cores"])
            idle = self.per_second(rank, "cpu_idle_ticks")
            if len(known) and idle is not None:
                at = known.iloc[-1]
                time_s = float(at["unix_ns"]) / NS_PER_S
                cores = float(at["cores"])
                return Counted(time_s, cores, float(at["cpu_total_ticks"]), float(at["cpu_idle_ticks"]), idle)
        return None

    def spans(self, rank: int) -> pd.DataFrame:
        """Pairs of neighbouring samples over usual steps: begin_ns, end_ns, usual_ns, and the fields' differences."""
        return self._spans[rank]

    @cached_property
    def _spans(self) -> dict[int, pd.DataFrame]:
        return {rank: self._filled(rank, WIDE) for rank in self.ranks}

    def _filled(self, rank: int, least: float) -> pd.DataFrame:
        """Spans of which usual steps fill at least this share, and by how much (usual_ns)."""
        samples = self.samples(rank)
        at = samples["unix_ns"].to_numpy(dtype=np.int64)
        change = samples.drop(columns=["rank", "attempt", "unix_ns", "step"], errors="ignore").diff().iloc[1:]
        change.insert(0, "end_ns", at[1:])
        change.insert(0, "begin_ns", at[:-1])
        change["usual_ns"] = _usual_ns(at[:-1], at[1:], self.sampled.of(rank))
        filled = change["usual_ns"] >= least * np.maximum(at[1:] - at[:-1], 1)
        spans: pd.DataFrame = change[filled].reset_index(drop=True)
        return spans

    def least_share(self, rank: int, field: str, threads: float = 1.0) -> float | None:
        """The least share of usual steps that a counter of microseconds can have; they fill at least half of its spans.

        What else lies in these spans (profiled steps, writing a trace, start-up) counts as if so many threads had
        spent all of it on the counter. None where that was not sampled for long enough.
        """
        spans = self._filled(rank, MIXED).dropna(subset=[field])
        usual_ns = float(spans["usual_ns"].sum())
        if usual_ns < LEAST_S * NS_PER_S:
            return None
        other_ns = float((spans["end_ns"] - spans["begin_ns"]).sum()) - usual_ns
        return max((1e3 * float(spans[field].sum()) - threads * other_ns) / usual_ns, 0.0)

    def sampled_s(self, rank: int) -> float:
        """Time between samples that the rates are over."""
        return self.seconds(rank, "end_ns")

    def seconds(self, rank: int, field: str) -> float:
        """Sampled time over which the counter is known."""
        spans = self.spans(rank)
        known = spans[spans[field].notna()]
        return float((known["end_ns"] - known["begin_ns"]).sum()) / NS_PER_S

    def per_second(self, rank: int, field: str) -> float | None:
        """Rise of a counter per second of wall time; None where it was not sampled for long enough."""
        if rank not in self._spans:
            return None
        seconds = self.seconds(rank, field)
        return float(self.spans(rank)[field].sum()) / seconds if seconds >= LEAST_S else None

    def share(self, rank: int, field: str) -> float | None:
        """Rise of a counter of microseconds as a share of wall time; 1 is one core or all of one thread's time."""
        rate = self.per_second(rank, field)
        return None if rate is None else rate / US_PER_S

    def level(self, rank: int, field: str) -> float | None:
        """Median of a sampled level; None where it was not sampled."""
        values = self.samples(rank)[field].dropna() if rank in self._spans else pd.Series(dtype="float64")
        return float(values.median()) if len(values) else None

    def children(self, rank: int) -> tuple[float, float] | None:
        """The number of the rank's child processes, in the median, and the mean share of its time for which each ran.

        Only spans at whose end there are any count: loader workers end with their loader, before the last sample, and
        what they ran since the sample before is not known. None where no such span was sampled for long enough.
        """
        if rank not in self._spans:
            return None
        count = self.samples(rank).set_index("unix_ns")["children"]
        spans = self.spans(rank)
        spans = spans.assign(children=count.groupby(level=0).last().reindex(spans["end_ns"]).to_numpy())
        known = spans[(spans["children"] > 0) & spans["children_cpu_us"].notna()]
        seconds = (known["end_ns"] - known["begin_ns"]) / NS_PER_S
        if seconds.sum() < LEAST_S:
            return None
        shared_s = float((seconds * known["children"]).sum())
        return float(known["children"].median()), float(known["children_cpu_us"].sum()) / US_PER_S / shared_s

    def _machine_ticks(self, rank: int) -> tuple[float, float] | None:
        """Ticks per second of all cores of the rank's machine, and idle ones; None where they were not sampled."""
        for each in self.around(rank):
            total, idle = self.per_second(each, "cpu_total_ticks"), self.per_second(each, "cpu_idle_ticks")
            if total is not None and idle is not None:
                return total, idle
        return None

    def busy_cores(self, rank: int) -> float | None:
        """Cores of the rank's machine that were busy, whoever used them."""
        ticks = self._machine_ticks(rank)
        return None if ticks is None else (ticks[0] - ticks[1]) / TICKS_PER_S

    def idle_share(self, rank: int) -> float | None:
        """Share of the time that the cores of the rank's machine were idle."""
        ticks = self._machine_ticks(rank)
        return min(max(ticks[1] / ticks[0], 0.0), 1.0) if ticks and ticks[0] else None

    def own_cores(self, rank: int) -> float | None:
        """Cores that the ranks on the rank's machine used, with their child processes."""
        near = self.around(rank)
        used = [share for each in near if (share := self.share(each, "process_cpu_us")) is not None]
        children = [self.share(each, "children_cpu_us") or 0.0 for each in near]
        return sum(used) + sum(children) if len(used) == len(near) else None


def host_records_of(run: Run, series: RunSeries | None) -> HostRecords | None:
    """None when the run has no samples, or no usual steps to relate them to."""
    if run.records is None or series is None or series.origin != "monitor" or run.records.system.empty:
        return None
    own = HostRecords(run.records, series, series)
    enough = series.every is None or all(own.sampled_s(rank) >= LEAST_S for rank in own.ranks)
    return own if enough else HostRecords(run.records, series, series.whole)


def _usual_ns(begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64], steps: pd.DataFrame) -> NDArray[np.int64]:
    """Time of usual steps in each span: what lies between them was profiled or was start-up."""
    first = steps["begin_unix_ns"].to_numpy(dtype=np.int64)
    last = steps["end_unix_ns"].to_numpy(dtype=np.int64)
    if not len(first):
        return np.zeros(len(begin_ns), dtype=np.int64)
    done = np.append(0, np.cumsum(last - first))

    def covered_until(moment: NDArray[np.int64]) -> NDArray[np.int64]:
        place = np.searchsorted(first, moment, side="right") - 1
        at = np.maximum(place, 0)
        return np.where(place < 0, 0, done[at] + np.clip(moment - first[at], 0, last[at] - first[at]))

    inside: NDArray[np.int64] = covered_until(end_ns) - covered_until(begin_ns)
    return inside
