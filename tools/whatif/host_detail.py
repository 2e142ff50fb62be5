"""Divides host time on the critical path into the innermost operators and calls, and names their families."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.profilers.rank_profile import RankProfile
from tools.run.events import EventKind
from tools.run.links import parents
from tools.whatif.families import host_families
from tools.whatif.operations import NONE, Rows

NAMED = (EventKind.OPERATOR, EventKind.RUNTIME)


def divided(rank: RankProfile, segments: pd.DataFrame, by_event: bool) -> pd.DataFrame:
    """The segments of one rank (columns rank, track, step, row, start_ns, end_ns, what, host) with host time divided.

    By family only, or also ``by_event``: into the innermost operators and calls.
    """
    host = segments["host"].to_numpy()
    parts = [segments[~host]]
    for track, mine in segments[host].groupby("track", sort=False):
        parts.append(_thread(rank, int(str(track)), mine, by_event))
    return pd.concat(parts, ignore_index=True)


def _thread(rank: RankProfile, track: int, mine: pd.DataFrame, by_event: bool) -> pd.DataFrame:
    start, end = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
    events = _events(rank, track, int(start.min()), int(end.max())) if by_event else np.empty(0, dtype=np.int64)
    families = host_families(rank, track)
    bounds = np.concatenate([rank.start[events], rank.end[events], *(part.ravel() for part in families.values())])
    cuts = np.unique(np.concatenate((start, end, bounds[(bounds > start.min()) & (bounds < end.max())])))
    first, stop = np.searchsorted(cuts, start), np.searchsorted(cuts, end)
    count = stop - first
    which = np.repeat(np.arange(len(mine)), count)
    cell = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    table = mine.iloc[which].reset_index(drop=True)
    table["start_ns"], table["end_ns"] = cuts[cell], cuts[cell + 1]
    table["row"] = innermost(rank, events, cuts[cell])
    what = np.full(len(cell), "cpu", dtype="<U13")
    for family, intervals in families.items():
        place = np.searchsorted(intervals[:, 0], cuts[cell], side="right") - 1
        if len(intervals):
            what[(place >= 0) & (cuts[cell] < intervals[np.maximum(place, 0), 1])] = family
    table["what"] = what
    return _merged(table)


def _events(rank: RankProfile, track: int, start_ns: int, end_ns: int) -> Rows:
    rows = np.flatnonzero((rank.track == track) & (rank.start < end_ns) & (rank.end > start_ns))
    named = np.isin(rank.kind[rows], [int(kind) for kind in NAMED]) | np.isin(rows, rank.loader_rows)
    return rows[named & (rank.end[rows] > rank.start[rows])]


def innermost(rank: RankProfile, events: Rows, moments_ns: Rows) -> Rows:
    """The innermost of the events (one thread) that covers each moment, -1 where none does."""
    if not len(events):
        return np.full(len(moments_ns), NONE, dtype=np.int64)
    upward = np.append(parents(rank.start[events], rank.end[events]), NONE)
    place = np.searchsorted(rank.start[events], moments_ns, side="right") - 1
    ended = np.append(rank.end[events], np.iinfo(np.int64).max)
    for _ in range(len(events)):
        outside = ended[place] <= moments_ns
        if not outside.any():
            break
        place[outside] = upward[place[outside]]
    return np.append(events, NONE)[place]


def _merged(table: pd.DataFrame) -> pd.DataFrame:
    """Neighbouring stretches of the same event, family and step as one."""
    if table.empty:
        return table
    start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    begins = np.append(True, start[1:] != end[:-1])
    for name in ("row", "step", "what"):
        values = table[name].to_numpy()
        begins[1:] |= values[1:] != values[:-1]
    first = np.flatnonzero(begins)
    result = table.iloc[first].reset_index(drop=True)
    result["end_ns"] = end[np.append(first[1:] - 1, len(table) - 1)]
    return result
