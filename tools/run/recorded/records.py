"""Records of a run apart from its traces: what the live monitor measured in every step and sampled around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import pandas as pd

LARGEST = (1 << 62) - 1  # two of them can be subtracted in a column
Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Amount = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]  # no sum of them is infinite

# What a sample of process, machine and device may hold; counters are the kernel's own (docs/monitor.md).
SAMPLE_FIELDS = (
    *("resident_bytes", "threads", "process_cpu_us", "allowed_cores", "cores", "throttled_periods", "throttled_us"),
    *("load_1min", "cpu_total_ticks", "cpu_idle_ticks", "cpu_steal_ticks", "pressure_cpu_some_us"),
    *("pressure_cpu_full_us", "pressure_io_some_us", "pressure_io_full_us", "pressure_memory_some_us"),
    *("pressure_memory_full_us", "device_allocated_bytes", "device_reserved_bytes", "device_peak_bytes"),
    *("device_utilisation_pct", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches"),
    *("training_cpu_us", "training_run_delay_us", "run_delay_us", "python_threads", "python_threads_cpu_us"),
    *("children", "children_cpu_us", "children_read_bytes", "children_allowed_cores", "quota_cores"),
    *("read_bytes", "write_bytes", "read_chars", "write_chars", "read_calls", "write_calls"),
    *("net_sent_bytes", "net_received_bytes", "lo_sent_bytes", "tcp_sent_segments", "tcp_retransmitted_segments"),
    *("rdma_retransmits", "runnable", "profiler_active", "compilations", "compile_us"),
)


class Interface(msgspec.Struct):
    """A network interface; None where its driver reports no speed."""

    mtu: Count
    speed_mbit: Count | None = None


class RankEnvironment(msgspec.Struct, tag="environment", tag_field="event", frozen=True, kw_only=True):
    """The settings that one start of a rank ran under at ``unix_ns``; None or missing where they are not known.

    Recorded at its start, at its end, and when torch's switches changed. ``threads`` torch_intra and torch_inter;
    ``flags`` anomaly_mode, distributed_debug (OFF, INFO, DETAIL), deterministic, default_dtype,
    float32_matmul_precision, mkldnn, cudnn_benchmark, accelerator (the one in use so far, none, unknown).
    """

    rank: int = -1
    attempt: int = 0
    unix_ns: Whole
    python: str = ""
    torch: str | None = None
    variables: dict[str, str] = {}
    threads: dict[str, Count] = {}
    flags: dict[str, bool | str] = {}
    gc_thresholds: tuple[Count, ...] = ()
    gc_enabled: bool | None = None
    gc_tracked_objects: Count | None = None
    allowed_cores: tuple[Count, ...] = ()
    cores: Count | None = None
    quota_cores: Amount | None = None
    interfaces: dict[str, Interface] = {}


@dataclass(frozen=True)
class MonitoredRank:
    """One start of one rank, and how much of it was recorded. ``attempt`` counts the starts of a rank from 0."""

    rank: int
    attempt: int
    host: str
    world_size: int | None
    steps: int
    lost_steps: int  # recorded and overwritten before they were written to the file
    ended_in_order: bool
    peak_flops_per_s: float | None
    flops_per_step: float | None
    local_rank: int | None = None  # 0 and None speak for their machine


@dataclass(frozen=True)
class MonitorRecords:
    """All records of a run folder. Every table has the columns rank and attempt; times in ms unless named otherwise.

    steps:     step, end_unix_ns, wall_ms, data_wait_ms, own_ms (NaN when it was not recorded), waiting_ms, gc_ms,
               gc_longest_ms, thread_cpu_ms, gc_runs, fetches, samples, in_flight, result_queue,
               pinned_queue (NaN where there is no such queue),
               captured, written (a profiler was ended or its trace written), first (bool), samples_per_s, mfu (NaN
               when not known), voluntary_switches,
               involuntary_switches, major_faults (NaN where they were not counted per step)
    gc:        step, end_unix_ns, generation, pause_ms, collected: pauses of 1 ms and more
    system:    unix_ns, step and ``SAMPLE_FIELDS``, counters since boot or since the start of the process; NaN where a
               machine does not report them
    captures:  request, first_step, last_step, path, bytes, write_ms
    anomalies: unix_ns, kind, step, usual_ms, seen_ms, excess_pct, part, claim, foreign (no attempt; rank -1: not one)
    """

    steps: pd.DataFrame
    gc: pd.DataFrame
    system: pd.DataFrame
    captures: pd.DataFrame
    anomalies: pd.DataFrame
    ranks: tuple[MonitoredRank, ...]
    notes: tuple[str, ...]
    environments: tuple[RankEnvironment, ...] = ()


def last_environment(environments: Sequence[RankEnvironment], rank: int) -> RankEnvironment | None:
    """The last settings that the rank's last start recorded, None where it recorded none."""
    own = [each for each in environments if each.rank == rank]
    return max(own, key=lambda each: (each.attempt, each.unix_ns), default=None)


def flag_values(environments: Sequence[RankEnvironment], rank: int, flag: str) -> tuple[bool | str, ...]:
    """Every value that a switch had in the rank's last start: a script may set it for a while only."""
    last = last_environment(environments, rank)
    start = None if last is None else (rank, last.attempt)
    same = [each for each in environments if (each.rank, each.attempt) == start and flag in each.flags]
    return tuple(dict.fromkeys(each.flags[flag] for each in same))
