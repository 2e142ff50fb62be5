"""Figures of tables in a job's output: its own timers, torch.profiler's operators, DeepSpeed's communication."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.run.recorded.job_log import Cited, JobLog
from tools.views.profile import Profile

TIMED = 0.5  # of the usual steps: timers of fewer are of saves, evaluations or the start
# DeepSpeed prints these for each micro-batch; how many a step has is not in the line.
PER_MICRO_BATCH = re.compile(r"_microstep\Z")
MICRO_STEP = tuple(f"{name}_microstep" for name in ("forward", "backward", "step"))
HOST, DEVICE = "self_cpu_time_total", "self_device_time_total"
OPERATORS, COMMUNICATION = "torch.profiler", "DeepSpeed comms"
ON_DEVICE = "torch.profiler, device"  # a table whose rows have a column of the device's own times


def step_timers(profile: Profile) -> dict[str, pd.DataFrame]:
    """Timers of the usual steps by name: their rows with ``wall_ms`` of the step; UsageError where there are none."""
    found = profile.memo("timers of the job", lambda: _step_timers(profile))
    if not found:
        raise UsageError("the job's output holds no timers of its usual steps")
    return found


def _step_timers(profile: Profile) -> dict[str, pd.DataFrame]:
    log = job_log(profile)
    if profile.series is None or log.timers.empty:
        return {}
    usual = profile.series.usual[["rank", "step", "wall_ms"]]
    rows = log.timers.merge(usual, on=["rank", "step"])
    rows = rows[~rows["name"].str.contains(PER_MICRO_BATCH) & (rows["max_ms"] > 0)]
    steps = rows.groupby("name")["step"].nunique()
    rows = rows[rows["name"].isin(steps.index[steps >= max(TIMED * usual["step"].nunique(), 1)])]
    return {str(name): own for name, own in rows.groupby("name")}


@metric("%", "share of the step in the job's timer {name}", "How much of a step does a part take by the job's timers?")
def timer_pct(profile: Profile, name: str) -> Measurement:
    """Mean of a timer over the usual steps, of its slowest rank where several are shown, of the mean step."""
    rows = _of_timer(profile, name)
    walls = rows.drop_duplicates(["rank", "step"])["wall_ms"]
    value = 100.0 * float(rows["max_ms"].mean()) / float(walls.mean())
    return of_lines(job_log(profile), value, rows, "lines of the timer")


@metric("ms", "{name} per step by the job's timer", "How long is a part of a step by the job's timers?")
def timer_ms(profile: Profile, name: str) -> Measurement:
    """Mean of a timer over the usual steps, of its slowest rank where several are shown."""
    rows = _of_timer(profile, name)
    return of_lines(job_log(profile), float(rows["max_ms"].mean()), rows, "lines of the timer")


@metric("%", "share of the printed steps in the job's timer {name}", "How much of the printed steps does a timer take?")
def printed_timer_pct(profile: Profile, name: str) -> Measurement:
    """Mean of a timer over all printed steps that have it, of the mean of these steps, where no series is known."""
    log = job_log(profile)
    rows = log.timers.merge(log.steps[["rank", "step", "wall_ms"]], on=["rank", "step"])
    rows = rows[~rows["name"].str.contains(PER_MICRO_BATCH) & (rows["max_ms"] > 0)]
    rows = rows[rows["max_ms"] <= rows["wall_ms"]]  # longer ones are of saves and evaluations
    if rows.empty:
        raise UsageError("the job's output holds no timers of steps whose time it prints")
    rows = rows[rows["name"] == choice("timer", name, sorted(set(rows["name"])))]
    return of_lines(
        log, 100.0 * float(rows["max_ms"].mean()) / float(rows["wall_ms"].mean()), rows, "lines of the timer"
    )


def lone_timers(log: JobLog, names: Sequence[str] = ()) -> pd.DataFrame:
    """Timers of lines where the output holds no step, those of ``names`` or all; UsageError where it has none, or a
    step."""
    rows = log.timers[log.timers["name"].isin(names or set(log.timers["name"]))]
    if rows.empty or not log.steps.empty:
        raise UsageError("the job's output holds no such timers without step lines")
    return rows


@metric("ms", "micro-step by DeepSpeed's timers", "How long is a micro-step by DeepSpeed's timers?")
def micro_step_ms(profile: Profile) -> Measurement:
    """Mean over the lines of forward, backward and step of a micro-step together."""
    log = job_log(profile)
    rows = lone_timers(log, MICRO_STEP)
    lines = rows.groupby(["rank", "line", "file"]).ngroups
    return of_lines(log, float(rows["max_ms"].sum()) / lines, rows, "timers of micro-steps")


@metric("ms", "{name} by the job's timers", "How long is a part by timers of a job that prints no steps?")
def lone_timer_ms(profile: Profile, name: str) -> Measurement:
    """Mean of a timer over the lines that state it, where the output holds no step."""
    log = job_log(profile)
    rows = lone_timers(log)
    own = rows[rows["name"] == choice("timer", name, sorted(set(rows["name"])))]
    return of_lines(log, float(own["max_ms"].mean()), own, "lines of the timer")


@metric("%", "spread over ranks of the job's timer {name}, of the step", "How far do ranks differ by the job's timers?")
def timer_spread_pct(profile: Profile, name: str) -> Measurement:
    """Longest less shortest rank of a timer, mean over the usual steps, of the mean step."""
    rows = _of_timer(profile, name)
    walls = rows.drop_duplicates(["rank", "step"])["wall_ms"]
    value = 100.0 * float((rows["max_ms"] - rows["min_ms"]).mean()) / float(walls.mean())
    return of_lines(job_log(profile), value, rows, "lines of the timer")


def _of_timer(profile: Profile, name: str) -> pd.DataFrame:
    rows = step_timers(profile)
    return rows[choice("timer", name, sorted(rows))]


def operators(log: JobLog) -> pd.DataFrame:
    """Rows of the first table of torch.profiler whose totals the output states, longest first."""
    rows = log.actions[log.actions["table"].isin([OPERATORS, ON_DEVICE])]
    total = log.settings.get(HOST)
    if rows.empty or total is None:
        raise UsageError("the job's output holds no whole table of torch.profiler")
    own = rows[(rows["line"] < total.line) & (rows["file"] == total.file)]
    on_device = own[own["table"] == ON_DEVICE]
    own = own if on_device.empty else on_device
    return own.sort_values("total_ms", ascending=False, kind="stable")


@metric("ms", "time in operators by torch.profiler's table", "How long do operators run by the profiler's table?")
def profiled_total_ms(profile: Profile, where: str) -> Measurement:
    """``Self CPU time total`` or ``Self CUDA time total`` below the table: own times of all operators, all threads."""
    log = job_log(profile)
    names = {"host": HOST, "device": DEVICE}
    stated = log.settings.get(names[choice("where", where, sorted(names))])
    if stated is None:
        raise UsageError(f"the job's output holds no such total of the {where}")
    return of_lines(log, float(stated.value), _statement(stated), "total below torch.profiler's table")


@metric("%", "share of {name} by torch.profiler's table", "Which operator takes the time by the profiler's table?")
def profiled_operator_pct(profile: Profile, name: str) -> Measurement:
    """An operator's own time of that of all: of the device where the table has it, else of the host."""
    log = job_log(profile)
    own = _of_operator(log, name)
    total = log.settings.get(DEVICE if ON_DEVICE in set(own["table"]) else HOST)
    if total is None:
        raise UsageError("the job's output does not state the total of the device's times in the table")
    return of_lines(log, 100.0 * float(own["total_ms"].sum()) / float(total.value), own, "rows of torch.profiler")


@metric("ms", "time in {name} by torch.profiler's table", "How long does an operator run by the profiler's table?")
def profiled_operator_ms(profile: Profile, name: str) -> Measurement:
    """An operator's own time: of the device where the table has it, else of the host."""
    own = _of_operator(job_log(profile), name)
    return of_lines(job_log(profile), float(own["total_ms"].sum()), own, "rows of torch.profiler")


def _of_operator(log: JobLog, name: str) -> pd.DataFrame:
    rows = operators(log)
    return rows[rows["action"] == choice("operator", name, list(dict.fromkeys(rows["action"])))]


@metric("ms", "time in collectives by DeepSpeed's log", "How long do collectives take by DeepSpeed's log?")
def logged_collectives_ms(profile: Profile, name: str = "") -> Measurement:
    """Total latency of the operations, of one operation and message size where ``name`` says which."""
    log = job_log(profile)
    rows = log.actions[log.actions["table"] == COMMUNICATION]
    if rows.empty:
        raise UsageError("the job's output holds no lines of DeepSpeed's communication log")
    own = rows[rows["action"] == choice("operation", name, list(dict.fromkeys(rows["action"])))] if name else rows
    return of_lines(log, float(own["total_ms"].sum()), own, "rows of DeepSpeed's communication log")


def _statement(stated: Cited) -> pd.DataFrame:
    return pd.DataFrame([{"value": stated.value, "line": stated.line, "file": stated.file}])
