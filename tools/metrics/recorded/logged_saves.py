"""Long steps that the job's own output explains: saves and evaluations next to them, and the limit of recompilations
after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.job_log import job_log, of_lines, warning_of
from tools.metrics.recorded.series import rank_stalls, run_series
from tools.run.recorded.job_log import StepNote
from tools.views.profile import Profile
from tools.views.steps.shape import LEAST_STALLS, Stalls

Kind = Literal["save", "evaluation"]
KINDS: tuple[Kind, ...] = ("save", "evaluation")
SHIFTS = (0, -1, 1)  # of a recorder's number of a step against the program's
NEARLY_ALL = 0.8  # of the saves stand next to long steps, and of the long steps next to saves
FEWEST_STEPS = 5  # before and after the limit of recompilations
PERIODS_WITHOUT = 2.0  # after the limit, until a rhythm of long steps counts as ended


def step_lines(profile: Profile, rank: int) -> pd.DataFrame:
    """The usual steps of a rank with their lines, of one file; empty where the steps are not of the job's output."""
    log, series = profile.run.job_log, profile.series
    if log is None or series is None or series.origin != "job_log":
        return pd.DataFrame({"step": [], "line": [], "file": [], "wall_ms": []})
    own = log.steps[(log.steps["rank"] == rank) & log.steps["step"].isin(series.of(rank)["step"])]
    return own if own["file"].nunique() == 1 else own.iloc[:0]


def noted_stalls(profile: Profile, rank: int, stalls: Stalls, kind: Kind) -> pd.DataFrame:
    """The long steps that the output says are saved or evaluated in (columns step, line, file); empty unless these are
    nearly all of them and nearly all that it says so of: by the lines next to theirs, else by the steps it names.
    """
    notes = _notes(profile, kind)
    beside = _beside(step_lines(profile, rank), notes, stalls)
    return beside if len(beside) else _by_number(run_series(profile).of(rank), notes, stalls)


def _notes(profile: Profile, kind: Kind) -> tuple[StepNote, ...]:
    log = profile.run.job_log
    return () if log is None else log.saves if choice("kind", kind, KINDS) == "save" else log.evaluations


def _beside(own: pd.DataFrame, notes: Sequence[StepNote], stalls: Stalls) -> pd.DataFrame:
    """The long steps whose lines stand next to one of the notes, or are one."""
    own = own.sort_values("line")
    lines = own["line"].to_numpy()
    named = [] if own.empty else [each for each in notes if each.file == own["file"].iloc[0]]
    saved = np.array([each.line for each in named if each.line > lines[0]], dtype=np.int64)
    if not len(saved):
        return own.iloc[:0]
    behind = np.searchsorted(lines, saved)  # the first step line after a save; the one before it is its neighbour
    around = np.unique(np.concatenate((behind - 1, np.minimum(behind, len(lines) - 1))))
    long = own["step"].isin(stalls.steps).to_numpy()
    placed = long[behind - 1] | long[np.minimum(behind, len(lines) - 1)]
    near = np.zeros(len(lines), dtype=bool)
    near[around] = True
    if placed.mean() < NEARLY_ALL or near[long].mean() < NEARLY_ALL:
        return own.iloc[:0]
    return own[near & long]


def _by_number(own: pd.DataFrame, notes: Sequence[StepNote], stalls: Stalls) -> pd.DataFrame:
    """The long steps that notes name by their number; a recorder may count from 0 and the program from 1."""
    lines = pd.DataFrame(
        [(each.step, each.line, each.file) for each in notes if each.step is not None],
        columns=["step", "line", "file"],
        dtype=np.int64,
    ).drop_duplicates("step")
    long = np.array(stalls.steps, dtype=np.int64)
    for shift in SHIFTS:
        moved = lines.assign(step=lines["step"] + shift)
        moved = moved[moved["step"].isin(own["step"])]
        if len(moved) < LEAST_STALLS:
            continue
        at = moved["step"].to_numpy()
        reached = np.isin(long, np.concatenate((at - 1, at, at + 1)))  # a stall may reach into a neighbour
        if np.isin(at, long).mean() >= NEARLY_ALL and reached.mean() >= NEARLY_ALL:
            return moved[moved["step"].isin(long)]
    return lines.iloc[:0]


def _noted(profile: Profile, rank: int, kind: Kind) -> Measurement:
    stalls = rank_stalls(profile).get(rank)
    own = pd.DataFrame() if stalls is None else noted_stalls(profile, rank, stalls, kind)
    if own.empty:
        raise UsageError(f"the output names no {kind} next to long steps of rank {rank}")
    selector = f"long steps next to a line on a {kind}"
    found = of_lines(job_log(profile), float(len(own)), own, selector, tuple(map(int, own["step"])))
    return replace(found, ranks=(rank,))


@metric("lines", "lines on saves in the job's output", "How often does the output say that a state is saved?")
def noted_saves(profile: Profile) -> Measurement:
    """Lines that name a save; a program may print several of one."""
    log = job_log(profile)
    if not log.saves:
        raise UsageError("no line of the job's output says that a state is saved")
    rows = pd.DataFrame([{"line": each.line, "file": each.file, "words": each.value} for each in log.saves])
    return of_lines(log, float(len(rows)), rows, "lines on saves")


@metric("steps", "long steps next to a save", "How many long steps stand next to a save in the output?")
def logged_save_steps(profile: Profile, rank: int) -> Measurement:
    """Long steps of the rhythm of which the output says that a checkpoint is saved."""
    return _noted(profile, rank, "save")


@metric("steps", "long steps next to an evaluation", "How many long steps stand next to an evaluation in the output?")
def logged_evaluation_steps(profile: Profile, rank: int) -> Measurement:
    """Long steps of the rhythm of which the output says that the model is evaluated."""
    return _noted(profile, rank, "evaluation")


def ended_by_limit(profile: Profile, rank: int, stalls: Stalls) -> bool:
    """Whether all long steps come before the output reports the limit of recompilations, and none long after it."""
    log, own = profile.run.job_log, step_lines(profile, rank)
    limit = None if log is None else warning_of(log, "recompile_limit")
    if limit is None or own.empty or limit.file != own["file"].iloc[0]:
        return False
    after = own["line"] > limit.first_line
    return not own["step"][after].isin(stalls.steps).any() and int(after.sum()) >= PERIODS_WITHOUT * stalls.period


@metric("ms", "median step {side} the limit of recompilations", "How long is a step before and after it?")
def recompile_limit_step_ms(profile: Profile, side: str) -> Measurement:
    """Median printed step before or after the first line that reports the limit of recompilations."""
    log, own = job_log(profile), step_lines(profile, run_series(profile).slowest_rank)
    limit = warning_of(log, "recompile_limit")
    if limit is None or own.empty or limit.file != own["file"].iloc[0]:
        raise UsageError("the output reports no limit of recompilations between its steps")
    after = own["line"] > limit.first_line
    rows = own[after if choice("side", side, ("before", "after")) == "after" else ~after]
    if len(rows) < FEWEST_STEPS:
        raise UsageError(f"fewer than {FEWEST_STEPS} steps are printed {side} the limit of recompilations")
    return of_lines(log, float(rows["wall_ms"].median()), rows, "step lines", tuple(map(int, rows["step"])))


@metric("ms", "time over the steps before the limit of recompilations", "What does recompiling cost a step?")
def recompile_limit_cost_ms(profile: Profile) -> Measurement:
    """The mean usual step less the median step before the limit of recompilations."""
    before = recompile_limit_step_ms(profile, "before")
    return replace(before, value=max(run_series(profile).mean_ms - before.value, 0.0))
