"""The counters of the process at the end of a step, and what a step took between two of them."""

from __future__ import annotations

from resource import RUSAGE_THREAD, getrusage
from time import perf_counter_ns, process_time_ns
from typing import NamedTuple

from hermes_agent.monitor.garbage import GarbageWatch
from hermes_agent.monitor.layout import LARGEST_US
from hermes_agent.monitor.loaders import DataWatch


class Readings(NamedTuple):
    """Running sums; all but the CPU time of the process are the training thread's."""

    wall_ns: int
    data_wait_ns: int
    waiting_ns: int
    gc_ns: int
    gc_runs: int
    process_cpu_ns: int
    thread_cpu_s: float
    voluntary_switches: int
    involuntary_switches: int
    major_faults: int
    fetches: int


def read(data: DataWatch, garbage: GarbageWatch, waiting_ns: int) -> Readings:
    """The counters now."""
    usage = getrusage(RUSAGE_THREAD)
    return Readings(
        perf_counter_ns(),
        data.total_ns,
        waiting_ns,
        garbage.total_ns,
        garbage.runs,
        process_time_ns(),
        usage.ru_utime + usage.ru_stime,
        usage.ru_nvcsw,
        usage.ru_nivcsw,
        usage.ru_majflt,
        data.fetches,
    )


def whole_us(span_ns: int) -> int:
    """Whole microseconds, within what a record can hold."""
    return min(max(span_ns, 0) // 1000, LARGEST_US)
