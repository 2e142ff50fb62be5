"""Full collections of Python's garbage collector: how many of all collections they are, and how many can be automatic.

CPython collects a generation once more than its threshold of collections of the next younger one have run since
(https://docs.python.org/3/library/gc.html#gc.set_threshold): with thresholds 700, 10, 10 each automatic full collection
follows at least 11 of the middle generation and 11 * 11 of the youngest. Calls of ``gc.collect()`` follow none.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.run.model import MONITOR_FORMAT
from tools.views.profile import Profile

FULL = 2  # the oldest generation
SHOWN = ("rank", "step", "end_unix_ns", "generation", "pause_ms", "collected")


@metric("%", "full garbage collections", "Which share of the garbage collections are full ones?")
def full_collections_pct(profile: Profile, rank: int) -> Measurement:
    """Full collections of 1 ms and more as a share of all collections in the recorded steps of a rank."""
    if profile.records is None:
        raise UsageError("the run has no monitor records")
    records = profile.records
    steps = records.steps[records.steps["rank"] == rank].sort_values("end_unix_ns")
    pauses = records.gc[records.gc["rank"] == rank]
    collections = float(steps["gc_runs"].sum())
    if pauses.empty or not collections:
        raise UsageError(f"the records of rank {rank} hold no long collections")
    # An event has the number of the step in which it was written down, so its step is found by time.
    ends = steps["end_unix_ns"].to_numpy(np.int64)
    begins = ends - (1e6 * steps["wall_ms"].to_numpy(np.float64)).astype(np.int64)
    at = pauses["end_unix_ns"].to_numpy(np.int64)
    place = np.minimum(np.searchsorted(ends, at), len(ends) - 1)
    inside = (at > begins[place]) & (at <= ends[place])
    full: pd.DataFrame = pauses[inside & (pauses["generation"].to_numpy() == FULL)]
    value = 100.0 * min(len(full) / collections, 1.0)
    shown = full[[name for name in SHOWN if name in full]].reset_index(drop=True)
    numbers = tuple(int(step) for step in steps["step"])
    return Measurement(value, lambda: shown, "full collections", (rank,), numbers, source=MONITOR_FORMAT)


@metric("%", "most automatic full garbage collections", "How many collections can be automatic full ones?")
def automatic_full_pct(profile: Profile, rank: int) -> Measurement:
    """The largest share of automatic full collections that the rank's thresholds allow; 0 % where all are switched off.

    Thresholds t0, t1, t2: one full collection in 1 + (t2 + 1) + (t2 + 1) * (t1 + 1).
    """
    environments = () if profile.records is None else profile.records.environments
    own = [each for each in environments if each.rank == rank and len(each.gc_thresholds) > FULL]
    if not own:
        raise UsageError(f"the records of rank {rank} do not hold the collector's thresholds")
    shares = [0.0 if each.gc_enabled is False else _most_full(*each.gc_thresholds[:3]) for each in own]
    table = pd.DataFrame([{"rank": rank, "unix_ns": each.unix_ns, "gc_thresholds": each.gc_thresholds} for each in own])
    selector = "environment events"
    return Measurement(100.0 * max(shares), lambda: table, selector, (rank,), source=MONITOR_FORMAT)


def _most_full(youngest: int, middle: int, oldest: int) -> float:
    """The share of full ones among automatic collections; the youngest generation's threshold 0 switches them off."""
    return 1.0 / (1 + (oldest + 1) * (middle + 2)) if youngest else 0.0
