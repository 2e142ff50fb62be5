"""Collectives of ranks without a device: who started each, and where the training thread waits for them.

A collective there is a span on a worker thread of the communication library (``gloo:all_reduce``). It is treated like
a device operation: launched by an operator of the training thread, run in order on its own track, waited for later.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tools.intervals import IntervalSet, complement
from tools.run.events import EventKind
from tools.views.rank_profile import RankProfile
from tools.whatif.operations import NONE, Operations, Rows
from tools.whatif.thread_handoff import busy
from tools.whatif.waits import Waits

RESUME_NS = 1_000_000  # the training thread resumes within this time after the collective it waited for, or
RESUME_SHARE = 0.2  # within this share of its own idleness


def host_operations(rank: RankProfile, main: int, start_ns: int, end_ns: int) -> Operations:
    """The collectives under way in the window, as operations; see ``tools.whatif.operations``."""
    spans = rank.host_collective_rows
    starters = _starters(rank, spans)
    inside = (rank.end[spans] > start_ns) & (rank.start[spans] < end_ns)
    rows, calls = spans[inside], starters[inside]
    linked = calls >= 0
    call_start = np.where(linked, rank.start[np.maximum(calls, 0)], NONE)
    call_end = np.where(linked, rank.end[np.maximum(calls, 0)], NONE)
    begin = rank.start[rows]
    recorded = Operations(
        row=rows,
        track=rank.track[rows].astype(np.int64),
        start_ns=begin,
        end_ns=np.maximum(rank.end[rows], begin + 1),
        launch_row=calls,
        host_track=np.where(linked, rank.track[np.maximum(calls, 0)], NONE).astype(np.int64),
        call_start_ns=call_start,
        call_end_ns=call_end,
        anchor_ns=np.where(begin >= call_end, call_end, call_start),
        fixed=np.where(linked, call_start, begin) < start_ns,
        communication=np.ones(len(rows), dtype=bool),
        copied=np.zeros(len(rows), dtype=bool),
    )
    return _completed(rank, recorded, main, start_ns, end_ns)


def _starters(rank: RankProfile, spans: Rows) -> Rows:
    """The operator that asked for each collective: the n-th for the n-th; else the last operator begun before it."""
    operators = (rank.kind == EventKind.OPERATOR) & rank.on_training_thread
    asked = np.flatnonzero(operators & rank.named("communication_operator"))
    reach = np.maximum.accumulate(rank.end[asked]) if len(asked) else asked
    asked = asked[np.append(True, rank.start[asked[1:]] >= reach[:-1])] if len(asked) else asked
    if len(asked) == len(spans) and bool((rank.start[asked] <= rank.start[spans]).all()):
        return asked
    every = np.flatnonzero(operators)
    place = np.searchsorted(rank.start[every], rank.start[spans], side="right") - 1
    return np.where(place >= 0, every[np.maximum(place, 0)], NONE) if len(every) else np.full(len(spans), NONE)


def _completed(rank: RankProfile, ops: Operations, main: int, start_ns: int, end_ns: int) -> Operations:
    """The collectives with the end that the training thread saw.

    A collective is over when the thread that waited for it resumes, even if the library's worker, short of a core,
    closes its span later. So when the thread was idle for long while a collective ran, and none ended to wake it,
    the one that had run longest ended at that moment.
    """
    idle = complement(busy(rank, main, start_ns, end_ns), start_ns, end_ns)
    woken, _ = _awaited(ops, idle)
    silent = np.ones(len(idle), dtype=bool)
    silent[woken] = False
    silent &= idle[:, 1] - idle[:, 0] >= RESUME_NS
    ended = ops.end_ns.copy()
    for begin, resumed in idle[silent]:
        soon = begin + RESUME_SHARE * (resumed - begin)
        running = np.flatnonzero((ops.start_ns <= soon) & (ended > resumed) & ~ops.fixed)
        if len(running):
            ended[running[0]] = resumed
    return replace(ops, end_ns=ended)


def host_waits(rank: RankProfile, ops: Operations, main: int, start_ns: int, end_ns: int) -> Waits:
    """Idleness of the training thread that ends just after a collective has ended."""
    idle = complement(busy(rank, main, start_ns, end_ns), start_ns, end_ns)
    which, operation = _awaited(ops, idle)
    gaps = idle[which]
    return Waits(
        row=np.full(len(gaps), NONE, dtype=np.int64),
        track=np.full(len(gaps), main, dtype=np.int64),
        start_ns=gaps[:, 0],
        end_ns=gaps[:, 1],
        wait=np.arange(len(gaps)),
        operation=operation,
    )


def _awaited(ops: Operations, idle: IntervalSet) -> tuple[Rows, Rows]:
    """Positions of idle intervals, and for each the collective that ended last before the thread resumed."""
    if not len(ops) or not len(idle):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    by_end = np.argsort(ops.end_ns, kind="stable")
    last = by_end[np.maximum(np.searchsorted(ops.end_ns[by_end], idle[:, 1], side="right") - 1, 0)]
    ended = ops.end_ns[last]
    resumed_ns = idle[:, 1] - ended
    waited = (ended > idle[:, 0]) & (resumed_ns >= 0)
    waited &= (resumed_ns <= RESUME_NS) | (resumed_ns <= RESUME_SHARE * (idle[:, 1] - idle[:, 0]))
    found = np.flatnonzero(waited)
    return found, last[found]
