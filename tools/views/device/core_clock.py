"""The clock of a device's cores while they compute, where a profiler reads it: on Ascend at every change."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import intersect, length, union
from tools.run.kinds import CORE_CLOCK, EventKind
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

READING = re.compile(rf"{CORE_CLOCK} (\d+(?:\.\d+)?(?:e\+\d+)?) MHz\Z")
BEFORE, AFTER = -(2**61), 2**61  # a clock holds until the next reading, the first one also before it


def readings(view: RankProfile) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows of the rank's readings in order of time, and their MHz."""
    texts = view.categories.to_numpy(dtype=object)
    known = {code: float(match[1]) for code, text in enumerate(texts) if (match := READING.match(str(text)))}
    rows = np.flatnonzero((view.kind == EventKind.INSTANT) & np.isin(view.codes, list(known)))
    return rows, np.array([known[code] for code in view.codes[rows].tolist()], dtype=np.float64)


@memoized
def computing_clocks(profile: Profile, rank: int) -> pd.DataFrame:
    """For each clock that was read, the ns inside steps in which kernels compute at it: columns mhz, compute_ns."""
    view = profile.rank(rank)
    rows, mhz = readings(view)
    steps = view.steps[["start_ns", "end_ns"]].to_numpy()
    busy = intersect(view.parts.compute, union(steps[:, 0], steps[:, 1]))
    at = view.start[rows]
    start, end = np.append(BEFORE, at[1:]), np.append(at[1:], AFTER)
    start, end = start[: len(rows)], end[: len(rows)]
    each = [
        (value, length(intersect(busy, union(start[mhz == value], end[mhz == value]))))
        for value in np.unique(mhz).tolist()
    ]
    return pd.DataFrame(each, columns=["mhz", "compute_ns"]).astype({"mhz": "float64", "compute_ns": "int64"})
