"""Evaluations that a job's output names among its step lines: how many, how far apart, and how long the lines around
them lie apart."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric, over_steps
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.metrics.recorded.side_work import LEAST_WITHOUT, OUTSTANDING
from tools.metrics.recorded.whole_run import step_lines_s
from tools.run.recorded.job_log import JobLog
from tools.views.profile import Profile


def _places(log: JobLog) -> pd.DataFrame:
    """The last step line before each place at which evaluations are named, with the line of the first one (``noted``).

    Lines of evaluations without a step line between them are one place.
    """
    rows = log.steps[log.steps["rank"] == log.steps["rank"].min()].sort_values(["file", "line"])
    found = []
    for file, own in rows.groupby("file"):
        lines = own["line"].to_numpy()
        end = lines[-1] + (np.diff(lines).max() if len(lines) > 1 else 0)  # later ones may be of another start
        noted = sorted({each.line for each in log.evaluations if each.file == file and lines[0] <= each.line <= end})
        at = np.searchsorted(lines, noted, side="right") - 1
        _, first = np.unique(at, return_index=True)
        found.append(own.iloc[at[first]].assign(noted=np.array(noted, dtype=np.int64)[first]))
    places: pd.DataFrame = pd.concat(found) if found else rows.iloc[:0]
    if places.empty:
        raise UsageError("the output names no evaluation among its step lines")
    return places


def _numbered(log: JobLog) -> None:
    """UsageError where the numbers of steps are not those of the training."""
    if log.epochs is not None and not log.epochs.length_stated:
        raise UsageError("the numbers of steps after the first epoch are not known")


@metric("places", "places of evaluations among the step lines", "At how many places is an evaluation named?")
def evaluation_places(profile: Profile) -> Measurement:
    """Groups of lines on evaluations behind the first step line, without a step line between those of a group."""
    log = job_log(profile)
    places = _places(log)
    rows = places[["noted", "step", "file"]].rename(columns={"noted": "line"})
    return of_lines(log, float(len(rows)), rows, "lines of evaluations")


@metric("steps", "steps between evaluations", "How many steps lie between evaluations?")
def evaluation_distance_steps(profile: Profile) -> Measurement:
    """Median difference of the steps that are printed before the places."""
    log = job_log(profile)
    _numbered(log)
    places = _places(log)
    apart = places.groupby("file")["step"].diff().dropna()
    if len(apart) < 2 or (apart <= 0).any():
        raise UsageError("the output names too few evaluations to say how far they are apart")
    rows = places[["noted", "step", "file"]].rename(columns={"noted": "line"})
    return of_lines(log, float(apart.median()), rows, "step lines before evaluations")


def _gaps(profile: Profile) -> pd.DataFrame:
    """Neighbouring step lines with an evaluation between them: the seconds that pass beyond as many usual steps
    (``beyond_s``) and in all (``apart_s``), by their stamps, else by the time that the later one states of all steps
    since the earlier one. UsageError unless they stand out from all others."""
    log = job_log(profile)
    _numbered(log)
    if log.restarts:
        raise UsageError("the step lines are of several starts")
    places = _places(log)
    own = log.steps[log.steps["rank"] == log.steps["rank"].min()].sort_values(["file", "line"])
    ahead = own.groupby("file")[["written_ns", "step", "line", "span", "wall_ms"]].shift(-1)
    usual_s = float(own["wall_ms"].median()) / 1e3
    stamped_s = (ahead["written_ns"] - own["written_ns"]) / 1e9
    stated_s = (ahead["wall_ms"] * ahead["span"] / 1e3).where(ahead["step"] - own["step"] == ahead["span"])
    pairs = own.assign(
        apart_s=stamped_s.fillna(stated_s),
        next_line=ahead["line"],
        held=own["line"].isin(places["line"]) & own["file"].isin(places["file"]),
    )
    pairs["beyond_s"] = pairs["apart_s"] - (ahead["step"] - own["step"]) * usual_s
    pairs = pairs[pairs["beyond_s"].notna() & (ahead["step"] > own["step"])]
    held, free = pairs[pairs["held"]], pairs[~pairs["held"]]
    if held.empty or len(free) < LEAST_WITHOUT:
        raise UsageError("too few step lines with times of their own lie around evaluations and elsewhere")
    if not held["beyond_s"].median() > max(0.0, float(np.percentile(free["beyond_s"], OUTSTANDING))):
        raise UsageError("the step lines around evaluations are no further apart than others")
    columns = ["line", "file", "step", "next_line", "apart_s", "beyond_s"]
    found: pd.DataFrame = held[columns]
    return found


@metric(
    "s", "{statistic} time beyond usual steps where an evaluation is named", "How long do the steps pause to evaluate?"
)
def evaluation_gap_s(profile: Profile, statistic: str = "median") -> Measurement:
    """From the step line before an evaluation to that after it, less as many steps of the median time."""
    rows = _gaps(profile)
    value = over_steps(rows["beyond_s"].to_numpy(dtype=np.float64), statistic)
    return of_lines(job_log(profile), value, rows, "step lines around evaluations")


@metric("s", "time of all evaluations whose time is stated", "How long do evaluations take together?")
def evaluations_stated_s(profile: Profile) -> Measurement:
    """The sum of the times that lines state of whole evaluations."""
    log = job_log(profile)
    if not log.evaluation_times:
        raise UsageError("no line of the output states the time of an evaluation")
    rows = pd.DataFrame([{"seconds": float(each.value), "line": each.line} for each in log.evaluation_times])
    return of_lines(log, float(rows["seconds"].sum()), rows, f"{len(rows)} lines of evaluations")


@metric("%", "share of the time around evaluations", "How much of the time do the steps pause to evaluate?")
def evaluation_gap_pct(profile: Profile) -> Measurement:
    """The sum of these times over what the first and the last step line are apart."""
    rows = _gaps(profile)
    whole = step_lines_s(profile).value
    return of_lines(
        job_log(profile), 100.0 * float(rows["beyond_s"].sum()) / whole, rows, "step lines around evaluations"
    )
