"""Device memory as the allocator's marks show it, and allocation calls."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.intervals import intersect, union
from tools.metrics.cpu import starved
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.scope import event_rows, of_rank, step_ms
from tools.profilers.allocation import allocation_rows, device_marks
from tools.profilers.profile import Profile

MIB = 2**20


def memory_peak_mib(profile: Profile, rank: int, what: str = "allocated") -> Measurement:
    """Largest device memory in use (``allocated``) or held by the allocator (``reserved``) on one device."""
    if what not in ("allocated", "reserved"):
        raise UsageError(f"there is no memory figure {what!r}; choose allocated or reserved")
    marks = _marks(profile, rank)
    return of_rank(profile.rank(rank), marks[f"total_{what}"].max() / MIB, lambda: marks, "memory marks of the device")


def memory_unused_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the reserved memory that is not allocated when the allocation peaks: fragmentation and cache."""
    marks = _marks(profile, rank)
    peak = int(marks["total_allocated"].to_numpy().argmax())
    reserved = max(int(marks["total_reserved"].iloc[peak]), 1)
    value = 100.0 * (1.0 - int(marks["total_allocated"].iloc[peak]) / reserved)
    return of_rank(profile.rank(rank), value, lambda: marks, "memory marks of the device, at the peak")


def memory_used_pct(profile: Profile, rank: int) -> Measurement:
    """Largest reserved memory as a share of the device's memory."""
    view = profile.rank(rank)
    marks = _marks(profile, rank)
    sizes = [device.memory_bytes for device in view.rank.devices if device.memory_bytes]
    if not sizes:
        raise UsageError(f"the memory size of the device of rank {rank} is not recorded")
    return of_rank(view, 100.0 * marks["total_reserved"].max() / max(sizes), lambda: marks, "memory marks, device size")


def allocation_calls(profile: Profile, rank: int) -> Measurement:
    """Device memory allocation calls per step after the first step, on the training threads."""
    view = profile.rank(rank)
    rows = allocation_rows(view)
    return of_rank(view, len(rows) / _later_steps(profile, rank), lambda: event_rows(view, rows), "allocation calls")


def allocation_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in these calls after the first step."""
    view = profile.rank(rank)
    rows = allocation_rows(view)
    value = step_ms(view, union(view.start[rows], view.end[rows])).sum() / _later_steps(profile, rank)
    return of_rank(view, value, lambda: event_rows(view, rows), "allocation calls")


def allocation_exposed_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in these calls while the device has nothing to do."""
    view = profile.rank(rank)
    rows = allocation_rows(view)
    exposed = intersect(union(view.start[rows], view.end[rows]), starved(view))
    value = step_ms(view, exposed).sum() / _later_steps(profile, rank)
    return of_rank(view, value, lambda: event_rows(view, rows), "allocation calls while the device is idle")


def _later_steps(profile: Profile, rank: int) -> int:
    return max(len(profile.rank(rank).steps) - 1, 1)


def _marks(profile: Profile, rank: int) -> pd.DataFrame:
    marks = device_marks(profile.rank(rank))
    if marks.empty or not np.any(marks["total_reserved"] > 0):
        raise UsageError(f"rank {rank} recorded no device memory totals (record with profile_memory=True)")
    return marks


METRICS = (
    Metric("memory_peak_mib", "MiB", "How much device memory does the run use?", memory_peak_mib),
    Metric("memory_unused_pct", "%", "How much reserved memory is unused at the peak?", memory_unused_pct),
    Metric("memory_used_pct", "%", "How full is the device's memory?", memory_used_pct),
    Metric("allocation_calls", "calls", "How often does a step allocate device memory?", allocation_calls),
    Metric("allocation_ms", "ms", "How long does a step allocate device memory?", allocation_ms),
    Metric("allocation_exposed_ms", "ms", "How long does the device wait for allocation?", allocation_exposed_ms),
)
