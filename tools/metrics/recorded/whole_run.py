"""The length of the whole training: as lines of a job's output state it, or by the number of its steps."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.metrics.recorded.series import series_step_ms
from tools.run.recorded.job_log import OfWholeRun, WholeRunKind
from tools.views.profile import Profile


def stated_of_run(profile: Profile, kind: WholeRunKind) -> OfWholeRun | None:
    """The line that states it of the whole training; None where none does."""
    log = profile.run.job_log
    return None if log is None else log.whole_run.get(kind)


def steps_of_run(profile: Profile) -> OfWholeRun | None:
    """How many steps the training has: by a line, else what the progress bar of its steps counts to; None where that is
    not known, or less than the steps that are printed."""
    log = profile.run.job_log
    if log is None or log.steps.empty:
        return None
    last = log.steps.sort_values("step").iloc[-1]
    stated = log.whole_run.get("steps")
    if stated is None and log.bar_total > 1:
        stated = OfWholeRun(str(log.bar_total), int(last["line"]), int(last["file"]))
    return stated if stated is not None and int(stated.value) >= int(last["step"]) else None


@metric("s", "time that is left of the training by its line", "How long does the training still take by its output?")
def run_left_s(profile: Profile) -> Measurement:
    """What the last line with an estimate states as left of the whole training."""
    return _of_line(profile, "left_s", "estimate of the program")


@metric("s", "time of the training so far by its line", "How long has the training taken so far by its output?")
def run_passed_s(profile: Profile) -> Measurement:
    """What the last line states as passed, without what the program leaves out of it, such as evaluations."""
    return _of_line(profile, "passed_s", "time so far")


@metric("s", "time of the whole training by its line", "How long does the training take in total by its output?")
def run_estimated_s(profile: Profile) -> Measurement:
    """What had passed and what is left by one and the same line."""
    passed, left = stated_of_run(profile, "passed_s"), stated_of_run(profile, "left_s")
    if passed is None or left is None or (passed.line, passed.file) != (left.line, left.file):
        raise UsageError("no line of the output states both what had passed of the training and what is left")
    known = _of_line(profile, "left_s", "passed and left")
    return replace(known, value=float(passed.value) + float(left.value))


@metric("steps", "steps of the whole training", "How many steps does the training have?")
def run_steps(profile: Profile) -> Measurement:
    """As a line or an argument states it, or what the progress bar of the steps counts to."""
    stated = steps_of_run(profile)
    if stated is None:
        raise UsageError("the job's output does not state how many steps the training has")
    rows = pd.DataFrame([{"steps": stated.value, "line": stated.line, "file": stated.file}])
    return of_lines(job_log(profile), float(stated.value), rows, "steps of the training")


@metric(
    "s", "{part} steps of the training at their mean time", "How long do the steps of the training take at their mean?"
)
def run_steps_s(profile: Profile, part: str = "all") -> Measurement:
    """The mean step times the steps of the training: ``all``, or those that are ``left`` after the last printed one."""
    whole, mean = run_steps(profile), series_step_ms(profile, "mean")
    steps = whole.value - (float(job_log(profile).steps["step"].max()) if part == "left" else 0.0)
    return replace(whole, value=steps * mean.value / 1e3, selector=f"{whole.selector}, times the mean step")


@metric("s", "time between the first and the last step line", "How long do the step lines go on by their stamps?")
def step_lines_s(profile: Profile) -> Measurement:
    """From the stamp of the first step line to that of the last one, with all that lies between them."""
    log = job_log(profile)
    own = log.steps[log.steps["written_ns"].notna()]
    if own.empty or log.restarts or own["written_ns"].nunique() == 1:
        raise UsageError("the step lines of the job's output state no dates of one start")
    ends = own.sort_values("written_ns").iloc[[0, -1]]
    value = float(ends["written_ns"].iloc[1] - ends["written_ns"].iloc[0]) / 1e9
    return of_lines(log, value, ends, "stamps of step lines", tuple(map(int, ends["step"])))


def _of_line(profile: Profile, kind: WholeRunKind, what: str) -> Measurement:
    stated = stated_of_run(profile, kind)
    if stated is None:
        raise UsageError("the job's output does not state that of the whole training")
    rows = pd.DataFrame([{"seconds": float(stated.value), "line": stated.line, "file": stated.file}])
    steps = () if stated.step is None or stated.step < 0 else (stated.step,)
    return of_lines(job_log(profile), float(stated.value), rows, what, steps)
