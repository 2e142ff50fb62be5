"""One step as lanes: what each rank does from its start to its end. Reads the run, so it is imported late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hermes_agent.report.pictures.data import PARTS, Lane, Lanes
from tools.views.parts import breakdown
from tools.views.profile import Profile

BINS = 240  # of the step; a picture draws several of them in a cell


def lanes(profile: Profile, number: int, ranks: Sequence[int]) -> Lanes:
    """The parts of a traced step over its time on these ranks, in ms per bin and rank; other ranks are not read.

    The bins of a rank add up to the parts that ``breakdown`` gives for the step.
    """
    views = [profile.rank(each) for each in ranks]
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
