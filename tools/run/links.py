"""Links between the events of one rank: launches, enclosing calls, forward and backward."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import DEVICE_WORK, EventKind, EventTable


def launches(events: EventTable) -> pd.DataFrame:
    """Runtime call and the device work it launched, joined by correlation id; one row per device operation.

    Columns: launch_row, device_row, call_start_ns, call_end_ns, start_ns, end_ns, track (of the device work),
    host_track. Device work whose call was not recorded is absent. Ordered by ``start_ns``.
    """
    frame = events.frame
    kind = frame["kind"].to_numpy()
    correlation = frame["correlation"].to_numpy()
    known = correlation >= 0
    calls = np.flatnonzero((kind == EventKind.RUNTIME) & known)
    work = np.flatnonzero(np.isin(kind, [int(k) for k in DEVICE_WORK]) & known)
    if not len(calls) or not len(work):
        return _launch_frame(frame, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    order = np.argsort(correlation[calls], kind="stable")
    sorted_ids = correlation[calls][order]
    place = np.searchsorted(sorted_ids, correlation[work])
    hit = sorted_ids[np.minimum(place, len(sorted_ids) - 1)] == correlation[work]
    return _launch_frame(frame, calls[order][np.minimum(place, len(order) - 1)][hit], work[hit])


def _launch_frame(frame: pd.DataFrame, call: NDArray[np.int64], work: NDArray[np.int64]) -> pd.DataFrame:
    start, end, track = (frame[column].to_numpy() for column in ("start_ns", "end_ns", "track"))
    return pd.DataFrame(
        {
            "launch_row": call,
            "device_row": work,
            "call_start_ns": start[call],
            "call_end_ns": end[call],
            "start_ns": start[work],
            "end_ns": end[work],
            "track": track[work],
            "host_track": track[call],
        }
    )


def launch_starts(events: EventTable, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row, when the runtime call that launched it began; its own start where no call was recorded."""
    frame = events.frame
    start, correlation = frame["start_ns"].to_numpy(), frame["correlation"].to_numpy()
    runtime = np.flatnonzero((frame["kind"].to_numpy() == EventKind.RUNTIME) & (correlation >= 0))
    calls, first = np.unique(correlation[runtime], return_index=True)
    if not len(calls):
        return start[rows]
    at = np.minimum(np.searchsorted(calls, correlation[rows]), len(calls) - 1)
    return np.where(calls[at] == correlation[rows], start[runtime][first][at], start[rows])


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
    ended = np.searchsorted(np.sort(end), start, side="right")
    instants_self = np.zeros(len(start), dtype=np.int64)
    zero = end == start
    if zero.any():
        # An event without duration has "ended" at its own start; it must not close itself or its peers.
        position = np.arange(len(start))
        peers = np.searchsorted(start, start, side="right")
        ends_here = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(zero)))
        instants_self = ends_here[peers] - ends_here[position]
    return np.asarray(np.arange(len(start)) - (ended - instants_self), dtype=np.int64)


def enclosing(events: EventTable, rows: NDArray[np.int64], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row, the innermost candidate row on the same track that covers its start, else -1."""
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
    return result


def launching_operators(events: EventTable, links: pd.DataFrame) -> NDArray[np.int64]:
    """For each row of ``launches``, the innermost operator around the launching call, else -1."""
    kind = events.frame["kind"].to_numpy()
    operators = np.flatnonzero(kind == EventKind.OPERATOR)
    return enclosing(events, links["launch_row"].to_numpy(), operators)
