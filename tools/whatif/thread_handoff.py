"""Where one host thread waits for another: the training thread for the autograd thread, and the other way round.

Nothing of this is recorded. It is inferred from idleness: a thread that runs neither operators nor runtime calls while
the other one starts and finishes a burst of work has handed over to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.intervals import IntervalSet, complement, intersect, length, merge, subtract, union
from tools.run.events import EventKind
from tools.views.rank_profile import RankProfile
from tools.whatif.operations import Rows

BURST_GAP_NS = 100_000  # a thread idle for less than this is still busy: Python between two operators
ALTERNATING_SHARE = 0.1  # threads that work at the same time for more than this share do not wait for each other


@dataclass(frozen=True, eq=False)
class Handovers:
    """Spans of one thread that end after another thread has reached a moment; arrays of shape (n,)."""

    track: Rows
    start_ns: Rows
    end_ns: Rows
    other_track: Rows
    other_ns: Rows  # what the thread waits for: the other one's progress up to this moment


def handovers(rank: RankProfile, main: int, others: list[int], start_ns: int, end_ns: int) -> Handovers:
    """All hand-overs between the main training thread and the other threads that drive the device."""
    main_busy = busy(rank, main, start_ns, end_ns)
    idle = complement(main_busy, start_ns, end_ns)
    parts = [np.empty((0, 5), dtype=np.int64)]
    for other in others:
        work = busy(rank, other, start_ns, end_ns)
        if not len(work):
            continue
        bursts = _bursts(work)
        parts.append(_woken(main, other, idle, bursts, start_ns))
        if length(intersect(main_busy, work)) <= ALTERNATING_SHARE * length(work):
            parts.append(_awaited(main, other, idle, bursts))
    return Handovers(*np.concatenate(parts).T)


def busy(rank: RankProfile, track: int, start_ns: int, end_ns: int) -> IntervalSet:
    """When the thread runs operators or runtime calls, inside the window.

    Without a device, an operator that only encloses others may be waiting for a collective: that time does not count.
    """
    rows = np.flatnonzero((rank.track == track) & (rank.start < end_ns) & (rank.end > start_ns))
    rows = rows[np.isin(rank.kind[rows], (int(EventKind.OPERATOR), int(EventKind.RUNTIME)))]
    begin, end = np.maximum(rank.start[rows], start_ns), np.minimum(rank.end[rows], end_ns)
    if rank.rank.has_device:
        return union(begin, end)
    encloses = rank.named("enclosing_operator")[rows]
    spans = rank.host_collective_rows
    waiting = rank.covered(spans)
    return merge(union(begin[~encloses], end[~encloses]), subtract(union(begin[encloses], end[encloses]), waiting))


def _bursts(work: IntervalSet) -> IntervalSet:
    filled = merge(work, np.column_stack((work[:, 1], work[:, 1] + BURST_GAP_NS)))
    return np.column_stack((filled[:, 0], filled[:, 1] - BURST_GAP_NS))


def _woken(main: int, other: int, idle: IntervalSet, bursts: IntervalSet, start_ns: int) -> Rows:
    """The other thread's idleness before each burst: it waits until the main thread hands over or gets that far.

    A burst that follows an earlier one within the same idleness of the main thread was not woken by it.
    """
    begin = bursts[:, 0]
    before = np.concatenate((np.array([start_ns]), bursts[:-1, 1]))
    place = np.searchsorted(idle[:, 0], begin, side="right") - 1
    gap = idle[np.maximum(place, 0)] if len(idle) else np.zeros((len(begin), 2), dtype=np.int64)
    inside = (place >= 0) & (begin < gap[:, 1])
    woken = (begin > before) & (~inside | (gap[:, 0] >= before))
    moment = np.where(inside, gap[:, 0], begin)
    return _table(other, before[woken], begin[woken], main, moment[woken])


def _awaited(main: int, other: int, idle: IntervalSet, bursts: IntervalSet) -> Rows:
    """The main thread's idleness around whole bursts of the other thread: it waits for the last of them."""
    place = np.searchsorted(idle[:, 0], bursts[:, 0], side="right") - 1
    within = (place >= 0) & (bursts[:, 1] <= idle[np.maximum(place, 0), 1]) if len(idle) else np.zeros(0, dtype=bool)
    gaps, last = np.unique(place[within][::-1], return_index=True) if within.any() else (np.empty(0, np.int64),) * 2
    ends = bursts[within][::-1][last, 1] if within.any() else np.empty(0, np.int64)
    long = idle[gaps, 1] - idle[gaps, 0] >= BURST_GAP_NS
    return _table(main, idle[gaps[long], 0], idle[gaps[long], 1], other, ends[long])


def _table(track: int, start: Rows, end: Rows, other: int, moment: Rows) -> Rows:
    count = len(start)
    return np.column_stack((np.full(count, track), start, end, np.full(count, other), moment)).astype(np.int64)
