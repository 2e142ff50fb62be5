"""Which start of a job is the traced one, where the monitor's records hold several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from tools.sources.monitor import MonitorRecords

TOLERANCE_NS = 60 * 10**9  # clocks of two machines, and how far apart the ranks of one start begin


def reaches(read: MonitorRecords, ranks: Sequence[int], origin_unix_ns: int | None) -> bool:
    """Whether a start of a traced rank was under way at the trace's origin; also where that cannot be told."""
    return origin_unix_ns is None or read.steps.empty or not _under_way(_spans(read), ranks, origin_unix_ns).empty


def traced_start(read: MonitorRecords, ranks: Sequence[int], origin_unix_ns: int | None) -> tuple[MonitorRecords, bool]:
    """The records of the start that was traced, else of the last one, and whether others were left out.

    The starts of all ranks that ended their first step within a minute of each other are one; of a rank that has none
    of that time nothing is kept.
    """
    if read.steps.empty:
        return read, False
    spans = _spans(read)
    possible = spans if origin_unix_ns is None else _under_way(spans, ranks, origin_unix_ns)
    if possible.empty:
        return read, False
    traced = _closest(possible, origin_unix_ns)
    apart = (spans["first"] - int(traced["first"])).abs()
    before = (spans["end"] < int(traced["begin"])) & (spans["attempt"].max() > 0)  # an earlier start that failed soon
    together = spans[(apart <= TOLERANCE_NS) & ~before].assign(apart=apart).sort_values("apart", kind="stable")
    kept = together.drop_duplicates("rank")
    wanted = set(zip(kept["rank"].tolist(), kept["attempt"].tolist(), strict=True))
    if all((each.rank, each.attempt) in wanted for each in read.ranks):
        return read, False
    return _of(read, wanted), True


def _spans(read: MonitorRecords) -> pd.DataFrame:
    """Begin, end of the first step and end of every start that has steps."""
    steps = read.steps
    begins = steps["end_unix_ns"] - (steps["wall_ms"] * 1e6).astype("int64")
    table = steps[["rank", "attempt"]].assign(begin=begins, first=steps["end_unix_ns"], end=steps["end_unix_ns"])
    return table.groupby(["rank", "attempt"]).agg({"begin": "min", "first": "min", "end": "max"}).reset_index()


def _under_way(spans: pd.DataFrame, ranks: Sequence[int], origin_unix_ns: int) -> pd.DataFrame:
    begun = spans["begin"] - TOLERANCE_NS <= origin_unix_ns
    return spans[spans["rank"].isin(list(ranks)) & begun & (spans["end"] + TOLERANCE_NS >= origin_unix_ns)]


def _closest(possible: pd.DataFrame, origin_unix_ns: int | None) -> pd.Series[int]:
    """The start that needs least tolerance to hold the origin, the latest of those that need none."""
    if origin_unix_ns is None:
        return possible.sort_values("begin").iloc[-1]
    before = (possible["begin"] - origin_unix_ns).clip(lower=0)
    after = (origin_unix_ns - possible["end"]).clip(lower=0)
    best = possible.assign(off=before + after).sort_values(["off", "begin"], ascending=[True, False])
    return best.iloc[0]


def _of(read: MonitorRecords, wanted: set[tuple[int, int]]) -> MonitorRecords:
    return replace(
        read,
        steps=_only(read.steps, wanted),
        gc=_only(read.gc, wanted),
        system=_only(read.system, wanted),
        captures=_only(read.captures, wanted),
        ranks=tuple(each for each in read.ranks if (each.rank, each.attempt) in wanted),
        environments=tuple(each for each in read.environments if (each.rank, each.attempt) in wanted),
    )


def _only(table: pd.DataFrame, wanted: set[tuple[int, int]]) -> pd.DataFrame:
    kept = pd.MultiIndex.from_frame(table[["rank", "attempt"]].astype("int64")).isin(wanted)
    return table[kept].reset_index(drop=True)
