"""Figures of lines that a log repeats: how many there are, and how many in an hour."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.run.recorded.job_log import JobLog, RepeatedLine
from tools.views.profile import Profile

LEAST_REPEATS, LEAST_SPAN_S = 3, 60.0  # lines with a time, and the time between the first and last: fewer show no rate


def _per_h(log: JobLog, own: Sequence[RepeatedLine], what: str) -> Measurement:
    """How often the lines come in an hour, by the gaps between those that state a time."""
    timed = [each for each in own if each.stamped >= LEAST_REPEATS and each.span_s >= LEAST_SPAN_S]
    if not timed:
        raise UsageError(f"{what}: too few lines state when they were written, or all were within a minute")
    rows = pd.DataFrame(
        [{"line": line, "file": each.file} for each in timed for line in (each.first_line, each.last_line)]
    )
    return of_lines(log, sum(3600.0 * (each.stamped - 1) / each.span_s for each in timed), rows, what)


@metric("/h", "lines per hour with the driver's error", "How often does the driver report an error?")
def reported_errors_per_h(profile: Profile, code: str, place: str = "") -> Measurement:
    """Lines with that code in an hour between the first and the last one that state a time."""
    log = job_log(profile)
    choice("code", code, [each.code for each in log.errors])
    own = [each.times for each in log.errors if each.code == code and place in ("", each.place) and each.times]
    return _per_h(log, own, f"lines with {code}")


def nccl_warnings(log: JobLog) -> list[tuple[RepeatedLine, ...]]:
    """The warnings of NCCL, the most frequent first; each as the lines of one or several files of the job."""
    kinds: dict[str, list[RepeatedLine]] = {}
    for each in sorted(log.nccl.warnings, key=lambda each: (each.file, each.first_line)):
        kinds.setdefault(each.kind, []).append(each)
    return sorted(map(tuple, kinds.values()), key=lambda own: -sum(each.count for each in own))


def nccl_warning(log: JobLog, place: int) -> tuple[RepeatedLine, ...]:
    """The warning of NCCL at a place, from 1, the most frequent first; UsageError where there are fewer."""
    ordered = nccl_warnings(log)
    if not 1 <= place <= len(ordered):
        raise UsageError(f"the job's output holds {len(ordered)} kinds of warnings of NCCL")
    return ordered[place - 1]


@metric("lines", "lines with NCCL's warning", "How often does NCCL warn of something?")
def nccl_warning_lines(profile: Profile, place: int = 1) -> Measurement:
    """Lines of one warning of NCCL, the most frequent one first; numbers and addresses in it may differ."""
    log = job_log(profile)
    own = nccl_warning(log, place)
    rows = pd.DataFrame(
        [{"line": line, "file": each.file} for each in own for line in (each.first_line, each.last_line)]
    )
    return of_lines(log, float(sum(each.count for each in own)), rows, "warnings of NCCL")


@metric("/h", "lines per hour with NCCL's warning", "How often does NCCL warn in an hour?")
def nccl_warnings_per_h(profile: Profile, place: int = 1) -> Measurement:
    """The same in an hour, between the first and the last line that state a time."""
    log = job_log(profile)
    return _per_h(log, nccl_warning(log, place), "warnings of NCCL")
