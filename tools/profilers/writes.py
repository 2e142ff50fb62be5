"""What processes wrote, as the monitor counted it: around the long steps of a rhythm, and in every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import covered, union
from tools.profilers.host_records import NS_PER_S, HostRecords
from tools.profilers.series import RunSeries
from tools.profilers.stalls import Stalls

# By bytes that went to storage, else by any write call: a file server is written to through a socket.
COUNTERS = ("write_bytes", "write_chars")
LEAST_BYTES = 1e5  # fewer in one stall is a log line, not a checkpoint


@dataclass(frozen=True, eq=False)
class StallWrites:
    """What a rank wrote around each stall beyond what it writes all the time."""

    counter: str
    bytes_per_stall: float
    share: float  # of all that it wrote in usual steps
    bytes_per_s: float  # of the long steps' excess
    spans: pd.DataFrame


def stall_writes(records: HostRecords, series: RunSeries, stalls: Stalls, rank: int) -> StallWrites | None:
    """None where the records do not count writes, or where more is written between the long steps than in them."""
    if rank not in records.ranks:
        return None
    spans = records.spans(rank)
    holding, held = _holding(spans, series, stalls, rank)
    if holding.all():  # samples are too far apart to fall between the stalls: those that hold most of one
        holding = _mostly(spans, series, stalls, rank)
    if not held or holding.all() or not holding.any():
        return None
    length_s = (spans["end_ns"] - spans["begin_ns"]).to_numpy(dtype=np.float64) / NS_PER_S
    for counter in COUNTERS:
        written = spans[counter].fillna(0.0).to_numpy(dtype=np.float64)
        usual_rate = written[~holding].sum() / length_s[~holding].sum()
        extra = float(written[holding].sum() - usual_rate * length_s[holding].sum())
        per_stall = extra / held
        if per_stall >= LEAST_BYTES:
            share = extra / max(float(written.sum()), 1.0)
            speed = per_stall / max(stalls.excess_ms / 1e3, 1e-6)
            return StallWrites(counter, per_stall, share, speed, spans[holding])
    return None


def _mostly(spans: pd.DataFrame, series: RunSeries, stalls: Stalls, rank: int) -> NDArray[np.bool_]:
    """Which spans between samples lie in long steps for more than the spans do on average."""
    own = series.of(rank)
    long = own[own["step"].isin(stalls.steps)]
    begin, end = (spans[name].to_numpy(dtype=np.int64) for name in ("begin_ns", "end_ns"))
    steps = union(long["begin_unix_ns"].to_numpy(dtype=np.int64), long["end_unix_ns"].to_numpy(dtype=np.int64))
    share = covered(steps, begin, end) / np.maximum(end - begin, 1)
    return np.asarray(share > share.mean(), dtype=bool)


def _holding(spans: pd.DataFrame, series: RunSeries, stalls: Stalls, rank: int) -> tuple[NDArray[np.bool_], int]:
    """Which spans between samples touch a long step of the rank, and how many stalls they touch in all.

    Neighbouring long steps are one stall, as in ``Stalls.excess_ms``.
    """
    own = series.of(rank)
    chosen = own["step"].isin(stalls.steps).to_numpy(dtype=bool)
    long = own[chosen]
    stall = np.cumsum(np.diff(np.flatnonzero(chosen), prepend=-2) > 1)
    begin, end = (long[name].to_numpy(dtype=np.int64) for name in ("begin_unix_ns", "end_unix_ns"))
    first = np.searchsorted(spans["end_ns"].to_numpy(), begin, side="right")
    after = np.searchsorted(spans["begin_ns"].to_numpy(), end, side="left")
    touching = after > first
    marks = np.zeros(len(spans) + 1, dtype=np.int64)
    np.add.at(marks, first[touching], 1)
    np.add.at(marks, after[touching], -1)
    return np.cumsum(marks)[:-1] > 0, len(np.unique(stall[touching]))
