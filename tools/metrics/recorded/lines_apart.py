"""Figures of step lines that stand apart from those that are used, as another program writes them into one text."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric, over_steps
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.run.recorded.job_log import LinesApart
from tools.views.profile import Profile


def _apart(profile: Profile, place: int) -> LinesApart:
    found = job_log(profile).lines_apart
    if not 1 <= place <= len(found):
        raise UsageError(f"the output holds {len(found)} groups of step lines apart from those that are used")
    return found[place - 1]


@metric("ms", "{statistic} of step lines that stand apart", "What do step lines state that are not used?")
def apart_step_ms(profile: Profile, place: int, statistic: str) -> Measurement:
    """The least or the largest time of a step that the lines of this group state."""
    rows = _apart(profile, place).steps
    walls = rows["wall_ms"]
    value = walls.min() if choice("statistic", statistic, ["max", "min"]) == "min" else walls.max()
    return of_lines(job_log(profile), float(value), rows, "step lines that are not used")


@metric("ms", "{statistic} time of {name} as lines state it", "How long does a piece of work take that lines name?")
def named_time_ms(profile: Profile, name: str, statistic: str = "median") -> Measurement:
    """Over the lines that state a time of the work of that name in a sentence."""
    log = job_log(profile)
    choice("name", name, list(dict.fromkeys(each.name for each in log.named_times)))
    own = [each for each in log.named_times if each.name == name]
    rows = pd.DataFrame([{"wall_ms": each.wall_ms, "line": each.line, "file": each.file} for each in own])
    value = over_steps(rows["wall_ms"].to_numpy(dtype=np.float64), statistic)
    return of_lines(log, value, rows, f"{len(rows)} lines of {name}")


@metric("%", "wait for data in step lines that stand apart", "What do step lines that are not used wait for data?")
def apart_wait_pct(profile: Profile, place: int) -> Measurement:
    """The mean wait for data that the lines of this group state, of the mean time that they state of a step."""
    rows = _apart(profile, place).steps
    rows = rows[rows["data_wait_ms"].notna()]
    if rows.empty:
        raise UsageError("these lines do not state how long steps wait for data")
    value = 100.0 * float(rows["data_wait_ms"].sum() / rows["wall_ms"].sum())
    return of_lines(job_log(profile), value, rows, "step lines that are not used")
