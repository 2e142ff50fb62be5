"""Allocation of device memory inside steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.profilers.rank_profile import RankProfile
from tools.run.events import EventKind

ON_DEVICE = 1


def allocation_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of calls that allocate or free device or pinned memory in the steps after the first, which may warm up."""
    named = view.named("device_allocation") | view.named("host_allocation")
    calls = np.flatnonzero(named & (view.kind == EventKind.RUNTIME) & view.on_training_thread)
    number = view.step_of(calls)
    later = (number >= 0) & (number != int(view.steps["number"].iloc[0]))
    return np.asarray(calls[later], dtype=np.int64)


def device_marks(view: RankProfile) -> pd.DataFrame:
    """The allocator's marks on a device: columns of ``Details.memory`` and start_ns."""
    marks = view.events.details.memory
    marks = marks[marks["device_type"] == ON_DEVICE]
    return marks.assign(start_ns=view.start[marks["row"].to_numpy()])
