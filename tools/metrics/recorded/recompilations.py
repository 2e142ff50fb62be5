"""Figures of functions that torch.compile compiles again, by its own log in the job's output."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.run.recorded.job_log import JobLog, Recompilation
from tools.views.profile import Profile


def by_count(log: JobLog) -> tuple[Recompilation, ...]:
    """The functions, those that were compiled again most often first."""
    return tuple(sorted(log.recompilations, key=lambda each: (-each.count, -each.limits, each.first_line)))


@metric("recompilations", "recompilations of a function by torch.compile's log", "How often is it compiled again?")
def logged_recompilations(profile: Profile, place: int = 1) -> Measurement:
    """Lines that state a recompilation of the function at this place, the most frequent first."""
    each = _function(profile, place)
    if not each.count:
        raise UsageError("the output states a limit of recompilations and not each of them")
    return of_lines(job_log(profile), float(each.count), _rows(each), "recompilations")


@metric("lines", "limits of recompilations of a function", "How often did a function reach the limit?")
def logged_recompile_limits(profile: Profile, place: int = 1) -> Measurement:
    """Lines that name the function at this place as one that reached the limit, those of all ranks."""
    each = _function(profile, place)
    if not each.limits:
        raise UsageError("the output names no limit of recompilations for this function")
    return of_lines(job_log(profile), float(each.limits), _rows(each), "limits of recompilations")


def _function(profile: Profile, place: int) -> Recompilation:
    known = by_count(job_log(profile))
    if not 1 <= place <= len(known):
        raise UsageError(f"the output names {len(known)} functions that are compiled again")
    return known[place - 1]


def _rows(each: Recompilation) -> pd.DataFrame:
    return pd.DataFrame(
        [{"function": each.function, "line": line, "file": each.file} for line in (each.first_line, each.last_line)]
    )
