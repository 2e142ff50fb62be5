"""Figures of memory that PyTorch's allocator or the program prints into a job's output: its table, and its peak."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.job_log import GIB, job_log, of_lines
from tools.run.recorded.job_log import Cited
from tools.views.profile import Profile

SIZES = {"KB": 1, "MB": 2, "GB": 3, "TB": 4}  # powers of 1,000 or 1,024 bytes; "MiB" is always of 1,024
COUNTS = ("ooms", "retries")
AMOUNTS = ("allocated", "reserved", "unreleasable", "peak_allocated", "peak_reserved", "peak_unreleasable")


def _stated(profile: Profile, what: str) -> Cited:
    """A row of the summary; UsageError where the output holds none."""
    summary = job_log(profile).memory_summary
    if what not in summary:
        raise UsageError("the job's output holds no such row of torch.cuda.memory_summary()")
    return summary[what]


def _of_rows(profile: Profile, value: float, *stated: Cited) -> Measurement:
    rows = pd.DataFrame([{"stated": each.value, "line": each.line, "file": each.file} for each in stated])
    return of_lines(job_log(profile), value, rows, "rows of torch.cuda.memory_summary()")


@metric("times", "{what} by PyTorch's table of memory", "How often did the allocator run out of memory?")
def allocator_failures(profile: Profile, what: str) -> Measurement:
    """``ooms``: errors that were raised; ``retries``: failed calls of cudaMalloc, after which the cache is freed."""
    stated = _stated(profile, choice("count", what, COUNTS))
    return _of_rows(profile, float(stated.value), stated)


@metric("GiB", "{what} memory by PyTorch's table of memory", "How much memory does PyTorch hold?")
def allocator_memory_gib(profile: Profile, what: str) -> Measurement:
    """Memory at the time of the summary, ``peak_...`` the most before."""
    stated = _stated(profile, choice("amount", what, AMOUNTS))
    return _of_rows(profile, float(stated.value) / GIB, stated)


@metric("%", "allocated of the reserved memory", "How much of the memory that PyTorch holds is in use?")
def allocated_of_reserved_pct(profile: Profile) -> Measurement:
    """By the summary; where the output holds none, by the first report of exhausted memory."""
    log = job_log(profile)
    own = log.memory_summary if {"allocated", "reserved"} <= set(log.memory_summary) else log.memory
    if not {"allocated", "reserved"} <= set(own) or not float(own["reserved"].value):
        raise UsageError("the job's output does not state what PyTorch reserved and allocated")
    share = 100.0 * float(own["allocated"].value) / float(own["reserved"].value)
    return _of_rows(profile, share, own["allocated"], own["reserved"])


@metric("GiB", "peak of {kind} memory by the job's output", "How much memory does a process hold at most?")
def stated_peak_gib(profile: Profile, kind: str, decimal: int = 0) -> Measurement:
    """The largest that a line of the program states, of one process. GB is read as 2^30 bytes, with ``decimal`` as
    10^9, as MB and the like: programs print both."""
    log = job_log(profile)
    known = {each.kind: each for each in log.peak_memory}
    if not known:
        raise UsageError("the job's output states no peak of its memory")
    stated = known[choice("kind", kind, sorted(known))]  # type: ignore[index]
    smaller = (1000 / 1024) ** SIZES.get(stated.unit, 0) if decimal else 1.0
    rows = pd.DataFrame([{"bytes": stated.value, "line": stated.line, "file": stated.file}])
    return of_lines(log, float(stated.value) * smaller / GIB, rows, "peak of memory")
