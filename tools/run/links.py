"""Links between the events of one rank: launches, enclosing calls, forward and backward."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import DEVICE_WORK, EventKind, EventTable


def launching_calls(events: EventTable, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row, the first runtime call with its correlation id; -1 where none was recorded."""
    kind, correlation = (events.frame[column].to_numpy() for column in ("kind", "correlation"))
    calls = np.flatnonzero((kind == EventKind.RUNTIME) & (correlation >= 0))
    ids, first = np.unique(correlation[calls], return_index=True)
    if not len(ids):
        return np.full(len(rows), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(ids, correlation[rows]), len(ids) - 1)
    return np.where(ids[at] == correlation[rows], calls[first[at]], -1)


def launches(events: EventTable) -> pd.DataFrame:
    """Runtime call and the device work it launched, joined by correlation id; one row per device operation.

    Columns: launch_row, device_row, call_start_ns, call_end_ns, start_ns, end_ns, track (of the device work),
    host_track. Device work whose call was not recorded is absent. Ordered by ``start_ns``.
    """
    kind, start, end, track = (events.frame[column].to_numpy() for column in ("kind", "start_ns", "end_ns", "track"))
    work = np.flatnonzero(np.isin(kind, [int(k) for k in DEVICE_WORK]))
    call = launching_calls(events, work)
    call, work = call[call >= 0], work[call >= 0]
    columns = {"launch_row": call, "device_row": work, "call_start_ns": start[call], "call_end_ns": end[call]}
    return pd.DataFrame(
        columns | {"start_ns": start[work], "end_ns": end[work], "track": track[work], "host_track": track[call]}
    )


def launch_starts(events: EventTable, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row, when the runtime call that launched it began; its own start where no call was recorded."""
    start, call = events.frame["start_ns"].to_numpy(), launching_calls(events, rows)
    return start[np.where(call >= 0, call, rows)]


def parents(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """For events of one thread, sorted by start then longest first: position of the enclosing event, -1 at the top.

    An event that overlaps without nesting counts as enclosed by the one that is still open when it starts.
    """
    count = len(start)
    result = np.full(count, -1, dtype=np.int64)
    depth = depths(start, end)
    latest = np.full(int(depth.max(initial=0)) + 2, -1, dtype=np.int64)
    for level in range(1, len(latest) - 1):
        below = np.flatnonzero(depth == level)
        above = np.flatnonzero(depth == level - 1)
        result[below] = above[np.searchsorted(above, below) - 1]
    return result


def depths(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """For events of one thread, sorted by start then longest first: how many earlier events are open at the start."""
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    instant = end == start
    if instant.any():
        # An event without duration has "ended" at its own start; it must not close itself or its peers.
        before = np.append(0, np.cumsum(instant))
        depth += before[np.searchsorted(start, start, side="right")] - before[:-1]
    return np.asarray(depth, dtype=np.int64)


def enclosing(events: EventTable, rows: NDArray[np.int64], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row (-1 for none), the innermost candidate row on the same track that covers its start, else -1."""
    frame = events.frame
    start, end, track = (frame[column].to_numpy() for column in ("start_ns", "end_ns", "track"))
    result = np.full(len(rows), -1, dtype=np.int64)
    for number in np.unique(track[rows]):
        mine = np.flatnonzero(track[rows] == number)
        theirs = candidates[track[candidates] == number]
        if not len(theirs):
            continue
        upward = parents(start[theirs], end[theirs])
        place = np.searchsorted(start[theirs], start[rows[mine]], side="right") - 1
        for _ in range(len(theirs)):
            outside = (place >= 0) & (end[theirs[np.maximum(place, 0)]] <= start[rows[mine]])
            outside &= theirs[np.maximum(place, 0)] != rows[mine]
            if not outside.any():
                break
            place[outside] = upward[place[outside]]
        result[mine] = np.where(place >= 0, theirs[np.maximum(place, 0)], -1)
    return np.where(rows >= 0, result, -1)


def launching_operators(events: EventTable, links: pd.DataFrame) -> NDArray[np.int64]:
    """For each row of ``launches``, the innermost operator around the launching call, else -1."""
    operators = np.flatnonzero(events.frame["kind"].to_numpy() == EventKind.OPERATOR)
    return enclosing(events, links["launch_row"].to_numpy(), operators)
