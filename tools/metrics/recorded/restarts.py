"""Figures of a job that began again in the same output: how often, and the steps and time that it lost."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.run.recorded.job_log import JobLog, Restart
from tools.views.profile import Profile


@metric("restarts", "falls of the step number as after a checkpoint", "How often did the job begin again?")
def restarts(profile: Profile) -> Measurement:
    """Falls of the step number, not to the beginning, after which steps are printed as often as before."""
    log = job_log(profile)
    return _of(log, float(len(_known(log))))


@metric("steps", "steps printed again after restarts", "How many steps were lost to restarts?")
def repeated_steps(profile: Profile) -> Measurement:
    """Steps from the first one after each restart to the last one before it: trained, lost and trained again."""
    log = job_log(profile)
    return _of(log, float(sum(max(each.reached - each.again_from + 1, 0) for each in _known(log))))


@metric("s", "time from the last line before restarts to the first after", "How long was the job down?")
def restart_down_s(profile: Profile) -> Measurement:
    """Over all restarts, by the dates of the step lines; it holds the first step after each of them."""
    log = job_log(profile)
    times = [each.down_s for each in _known(log)]
    known = [each for each in times if each is not None]
    if len(known) < len(times):
        raise UsageError("the step lines around the restarts do not state when they were written")
    return _of(log, sum(known))


def _known(log: JobLog) -> tuple[Restart, ...]:
    if not log.restarts:
        raise UsageError("the step number of the job's output never falls as after a checkpoint")
    return log.restarts


def _of(log: JobLog, value: float) -> Measurement:
    columns = ("line", "file", "reached", "again_from", "down_s")
    rows = pd.DataFrame([{name: getattr(each, name) for name in columns} for each in log.restarts])
    return of_lines(log, value, rows, "step lines after restarts")
