"""Figures of the monitor's samples: what processes, children and machines did while usual steps ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.saves import stall_writes
from tools.metrics.recorded.series import rank_stalls
from tools.run.model import MONITOR_FORMAT
from tools.run.recorded.records import SAMPLE_FIELDS, RankEnvironment
from tools.views.host.records import HostRecords
from tools.views.profile import Profile

SUMMED_OVER_CORES = ("throttled_us",)
MOST_THREADS = 1 << 20
MOST_OBJECTS = 1 << 48  # more than any heap holds is a damaged record


def host_records(profile: Profile) -> HostRecords:
    """The run's samples; UsageError when it has none."""
    if profile.host_records is None:
        raise UsageError("the run has no monitor samples along with its steps")
    return profile.host_records


@metric("%", "{field} share of wall time", "Which share of the time does this take?")
def counter_share_pct(profile: Profile, rank: int, field: str) -> Measurement:
    """Rise of a counter of microseconds (waiting for a core, CPU time, throttled time) as a share of wall time."""
    if not choice("sampled field", field, SAMPLE_FIELDS).endswith("_us"):
        raise UsageError(f"{field} counts no microseconds")
    return _counted(profile, rank, field, 100.0 / 1e6)


@metric("%", "median {field} share of wall time", "Which share of the time does this take in the usual sample?")
def usual_counter_share_pct(profile: Profile, rank: int, field: str) -> Measurement:
    """The same for the usual sample, the median of them: what goes on for a passing stretch is not in it."""
    whole, spans = counter_share_pct(profile, rank, field), host_records(profile).spans(rank)
    rates = spans[field] * 1e3 / (spans["end_ns"] - spans["begin_ns"])
    return replace(whole, value=100.0 * float(rates.median()))


@metric("%", "least {field} share of unprofiled steps", "Which share of unprofiled steps does this take at least?")
def least_counter_share_pct(profile: Profile, rank: int, field: str) -> Measurement:
    """The same at least, where samples lie too far apart for unprofiled steps alone.

    All time of profiled steps between the samples is taken to be of this counter; of throttling, on every core.
    """
    records = host_records(profile)
    if not choice("sampled field", field, SAMPLE_FIELDS).endswith("_us"):
        raise UsageError(f"{field} counts no microseconds")
    cores = records.level(rank, "allowed_cores") if field in SUMMED_OVER_CORES else 1.0
    share = records.least_share(rank, field, cores) if rank in records.ranks and cores else None
    if share is None:
        raise UsageError(f"the records of rank {rank} do not hold {field} for long enough")
    selector = f"samples of {field}, less all of the time that is not of unprofiled steps"
    return _measured(profile, rank, 100.0 * share, selector, records.samples(rank), (field,))


@metric("/s", "{field} per second", "How often does this happen?")
def counter_per_second(profile: Profile, rank: int, field: str) -> Measurement:
    """Rise of a counter (switches, faults, calls, segments) per second of wall time."""
    return _counted(profile, rank, field, 1.0)


@metric("B/s", "{field} rate", "How many bytes move per second?")
def counter_bytes_per_s(profile: Profile, rank: int, field: str) -> Measurement:
    """Rise of a counter of bytes per second of wall time."""
    return _counted(profile, rank, field, 1.0)


@metric("/step", "{field} per step", "How often does this happen in a step?")
def counter_per_step(profile: Profile, rank: int, field: str) -> Measurement:
    """Rise of a counter per mean usual step of the rank."""
    return _counted(profile, rank, field, _step_s(profile, rank))


@metric("ms", "{field} per step", "How long does this take in a step?")
def counter_ms_per_step(profile: Profile, rank: int, field: str) -> Measurement:
    """Rise of a counter of microseconds per mean usual step of the rank, in ms."""
    return _counted(profile, rank, field, _step_s(profile, rank) / 1e3)


@metric("ms", "estimated page-fault time per step", "How long does the kernel need for page faults?")
def page_fault_ms(profile: Profile, rank: int) -> Measurement:
    """Estimated kernel time per usual step for page faults: their number times the threshold ``page_fault_us``."""
    faults = counter_per_step(profile, rank, "minor_faults")
    value_ms = faults.value * profile.thresholds["page_fault_us"] / 1e3
    return replace(faults, value=value_ms, selector="page faults times the cost of one")


@metric("B", "bytes written in a usual step", "How much is written in a usual step?")
def steady_writes_per_step(profile: Profile, rank: int) -> Measurement:
    """Bytes that reach storage in a usual step, by the median of the spans between samples: saves now and then not."""
    records = host_records(profile)
    if rank not in records.ranks or records.spans(rank)["write_bytes"].isna().all():
        raise UsageError(f"the records of rank {rank} do not count what is written")
    spans = records.spans(rank)
    rate = (spans["write_bytes"] / (spans["end_ns"] - spans["begin_ns"])).median() * 1e9
    return _measured(profile, rank, rate * _step_s(profile, rank), "samples of write_bytes", spans, ("write_bytes",))


@metric("B", "bytes written around a periodic stall", "How much is written in a long step?")
def stall_written_bytes(profile: Profile, rank: int) -> Measurement:
    """Bytes that a rank writes around each periodic stall, beyond its steady writes."""
    return _of_writes(profile, rank, "bytes_per_stall")


@metric("B/s", "write rate during periodic stalls", "How fast is it written in long steps?")
def stall_written_bytes_per_s(profile: Profile, rank: int) -> Measurement:
    """The same over the time that the long steps take longer."""
    return _of_writes(profile, rank, "bytes_per_s")


def _of_writes(profile: Profile, rank: int, figure: Literal["bytes_per_stall", "bytes_per_s"]) -> Measurement:
    records, stalls = host_records(profile), rank_stalls(profile).get(rank)
    found = None if stalls is None else stall_writes(records, records.series, stalls, rank)
    if found is None:
        raise UsageError(f"rank {rank} is not seen to write around long steps that recur at one distance")
    value = float(getattr(found, figure))
    return _measured(profile, rank, value, "samples around long steps", found.spans, (found.counter,))


@metric("count", "median {field}", "How many were there in the usual sample?")
def sampled_level(profile: Profile, rank: int, field: str) -> Measurement:
    """Median of a sampled level: threads, children, cores that may be used, runnable threads of the machine."""
    records = host_records(profile)
    value = records.level(rank, choice("sampled field", field, SAMPLE_FIELDS))
    if value is None:
        raise UsageError(f"the records of rank {rank} hold no {field}")
    return _measured(profile, rank, value, f"samples of {field}", records.samples(rank), (field,))


@metric("cores", "busy cores of {whose}", "How many cores were busy, and by whose processes?")
def sampled_cores(profile: Profile, rank: int, whose: str) -> Measurement:
    """Cores busy on the rank's machine: ``all``, those of the run's processes (``run``), or of others (``foreign``)."""
    records = host_records(profile)
    busy, own = records.busy_cores(rank), records.own_cores(rank)
    if busy is None or own is None:
        raise UsageError(f"the records do not show how busy the machine of rank {rank} was")
    values = {"all": busy, "run": own, "foreign": max(busy - own, 0.0)}
    value = values[choice("owner of processes", whose, values)]
    fields = ("cpu_total_ticks", "cpu_idle_ticks", "process_cpu_us", "children_cpu_us")
    rows = pd.concat([records.spans(each).assign(rank=each) for each in records.around(rank)], ignore_index=True)
    return _measured(profile, rank, value, "samples of the machine's cores", rows, ("rank", *fields))


@metric("%", "TCP retransmission rate", "How many packets are retransmitted?")
def sent_again_pct(profile: Profile, rank: int) -> Measurement:
    """TCP segments sent a second time, of all that the rank's machine sent."""
    records = host_records(profile)
    again = records.per_second(rank, "tcp_retransmitted_segments")
    sent = records.per_second(rank, "tcp_sent_segments")
    if again is None or not sent:
        raise UsageError(f"the records of rank {rank} do not count TCP segments")
    fields = ("tcp_retransmitted_segments", "tcp_sent_segments")
    return _measured(profile, rank, 100.0 * again / sent, "TCP segments", records.spans(rank), fields)


MUCH_OF_P95 = 0.5  # steps that wait for data this much of what the longest waits are


@metric("ms", "off-core time of the training thread per step", "How long does the thread sleep or block?")
def off_core_ms(profile: Profile, rank: int) -> Measurement:
    """Time per usual step in which the training thread neither ran nor waited for a core: it slept or was blocked."""
    records = host_records(profile)
    own = records.series.of(rank)
    delay = records.share(rank, "training_run_delay_us")
    if delay is None or own["thread_cpu_ms"].isna().all():
        raise UsageError(f"the records of rank {rank} do not show when its training thread ran")
    wall_ms = float(own["wall_ms"].mean())
    value = max(wall_ms * (1.0 - delay) - float(own["thread_cpu_ms"].mean()), 0.0)
    fields = ("rank", "wall_ms", "thread_cpu_ms")
    return _measured(profile, rank, value, "wall minus running and waiting for a core", own, fields)


@metric("ms", "blocked time per step of the in-process loader", "How long is an in-process loader blocked?")
def loader_blocked_ms(profile: Profile, rank: int) -> Measurement:
    """Time per usual step that the training thread is blocked beyond what the trace's exposed communication explains.

    Without a trace it is what lies outside of the rank's own time. At most the loader's own time: in a loader inside
    the training process that is its wait for bytes. Judged by the steps that wait for data most.
    """
    records, off = host_records(profile), off_core_ms(profile, rank)
    own, share = records.series.of(rank), _waiting_share(profile, rank)
    waiting = own[own["data_wait_ms"] >= MUCH_OF_P95 * own["data_wait_ms"].quantile(0.95)]
    there = waiting[["wall_ms", "data_wait_ms", "thread_cpu_ms"]].mean()
    delay = records.share(rank, "training_run_delay_us") or 0.0
    left_ms = there["wall_ms"] * (1.0 - delay - share) - there["thread_cpu_ms"]
    blocked = min(max(left_ms / there["data_wait_ms"], 0.0), 1.0) if there["data_wait_ms"] > 0 else 0.0
    value_ms = float(blocked * own["data_wait_ms"].mean())
    return replace(off, value=value_ms, selector="blocked time of usual steps")


def _waiting_share(profile: Profile, rank: int) -> float:
    """The share of a step that may be waiting for other ranks."""
    if profile.traced:
        table = profile.rank(rank).breakdown
        return float(table["exposed_communication_ns"].sum()) / max(float(table["wall_ns"].sum()), 1.0)
    own = host_records(profile).series.of(rank)
    if profile.run.layout.world_size == 1:
        return 0.0
    if own["own_ms"].isna().any():
        raise UsageError(f"the records of rank {rank} do not hold its own time")
    return max(1.0 - float(own["own_ms"].sum()) / float(own["wall_ms"].sum()), 0.0)


@metric("%", "mean CPU use of a loader worker", "How busy are the loader's workers?")
def worker_busy_pct(profile: Profile, rank: int) -> Measurement:
    """Share of its time in which a child process of the rank (a loader's worker) ran, mean over the children."""
    records = host_records(profile)
    children = records.children(rank)
    if children is None:
        raise UsageError(f"rank {rank} has no child processes in its records")
    fields = ("children", "children_cpu_us", "children_allowed_cores")
    return _measured(profile, rank, 100.0 * children[1], "samples of child processes", records.samples(rank), fields)


@metric("objects", "objects tracked by the garbage collector", "How many objects must Python's GC visit?")
def tracked_objects(profile: Profile, rank: int) -> Measurement:
    """Objects that Python's collector looks at in a full collection."""
    recorded = host_records(profile).environment(rank)
    count = None if recorded is None else recorded.gc_tracked_objects
    return _of_environment(recorded, rank, "gc_tracked_objects", count, MOST_OBJECTS, "count the collector's objects")


@metric("threads", "framework threads per operator", "How many threads work on one operator?")
def operator_threads(profile: Profile, rank: int) -> Measurement:
    """Threads that the framework gives to one operator on this rank."""
    recorded = host_records(profile).environment(rank)
    count = None if recorded is None else recorded.threads.get("torch_intra") or None
    return _of_environment(recorded, rank, "torch_intra", count, MOST_THREADS, "hold the framework's thread count")


def _of_environment(
    recorded: RankEnvironment | None, rank: int, name: str, count: int | None, most: int, what: str
) -> Measurement:
    """A count of the rank's environment; more than ``most`` is a damaged record."""
    if recorded is None or count is None or not 0 <= count <= most:
        raise UsageError(f"the records of rank {rank} do not {what}")
    rows = pd.DataFrame([{"rank": rank, "unix_ns": recorded.unix_ns, name: count}])
    return Measurement(float(count), lambda: rows, "environment event", (rank,), source=MONITOR_FORMAT)


def _step_s(profile: Profile, rank: int) -> float:
    return float(host_records(profile).series.of(rank)["wall_ms"].mean()) / 1e3


def _counted(profile: Profile, rank: int, field: str, scale: float) -> Measurement:
    records = host_records(profile)
    rate = records.per_second(rank, choice("sampled field", field, SAMPLE_FIELDS))
    if rate is None:
        raise UsageError(f"the records of rank {rank} hold no {field} over usual steps")
    return _measured(profile, rank, rate * scale, f"samples of {field}", records.spans(rank), (field,))


def _measured(
    profile: Profile, rank: int, value: float, selector: str, table: pd.DataFrame, fields: tuple[str, ...]
) -> Measurement:
    shown = [name for name in ("begin_ns", "end_ns", "unix_ns", "step", *fields) if name in table]
    steps = host_records(profile).series.numbers(rank)
    return Measurement(value, lambda: table[shown], selector, (rank,), steps, source=MONITOR_FORMAT)
