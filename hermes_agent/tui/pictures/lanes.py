"""One step as lanes: what each rank does from its start to its end. Reads the run, so it is imported late."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hermes_agent.report.pictures.data import NO_STEPS, PARTS, Lane, Lanes
from tools.errors import UsageError
from tools.views.parts import breakdown
from tools.views.profile import Profile

BINS = 240  # of the step; a picture draws several of them in a cell


def lanes(profile: Profile, step: int | None) -> Lanes:
    """The parts of a step over its time, in ms per bin and rank; without a number the longest step.

    The bins of a rank add up to the parts that ``breakdown`` gives for the step.
    """
    times = profile.step_ms
    if not len(times):
        raise UsageError(NO_STEPS)
    number = int(times.index[int(times.to_numpy().argmax())]) if step is None else step
    if number not in times.index:
        raise UsageError(f"There is no traced step {number}; there are {times.index.min()} to {times.index.max()}.")
    views = [view for view in profile.ranks if number in view.steps["number"].to_numpy()]
    windows = [view.steps[view.steps["number"] == number].iloc[0] for view in views]
    begin_ns = min(int(window["start_ns"]) for window in windows)
    end_ns = max(int(window["end_ns"]) for window in windows)
    edges = np.linspace(begin_ns, end_ns, BINS + 1).astype(np.int64)
    found = []
    for view, window in zip(views, windows, strict=True):
        own = np.clip(edges, int(window["start_ns"]), int(window["end_ns"]))
        bins = pd.DataFrame({"number": np.arange(BINS), "start_ns": own[:-1], "end_ns": own[1:]})
        table = breakdown(view.parts, bins)
        parts = table[[f"{part}_ns" for part in PARTS]].to_numpy() / 1e6
        found.append(Lane(view.rank.rank, tuple(map(tuple, parts.tolist()))))
    return Lanes(number, (end_ns - begin_ns) / 1e6, tuple(found))
