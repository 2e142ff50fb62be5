"""Host threads cut into stretches, and where one thread waits for another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.errors import InputError
from tools.intervals import IntervalSet, complement, distinct, intersect, length, merge, subtract, union
from tools.run.events import EventKind
from tools.views.rank_profile import RankProfile
from tools.whatif.operations import NONE, Columns, Rows


def main_track(rank: RankProfile) -> int:
    """The thread with most step marks, else the first to start. InputError without host threads."""
    tracks = rank.training_tracks
    if not len(tracks):
        raise InputError(
            f"rank {rank.rank.rank} records device work but no host thread that launches it, so it cannot be said "
            "what the device waited for; record the host's calls as well, with ProfilerActivity.CPU, `nsys profile "
            "--trace=cuda` or `rocprofv3 --hip-trace`"
        )
    marks = rank.track[np.flatnonzero(rank.named("profiler_step"))]
    counts = np.array([(marks == track).sum() for track in tracks])
    if counts.any():
        return int(tracks[counts.argmax()])
    begun = [rank.start[rank.track == track].min(initial=np.iinfo(np.int64).max) for track in tracks]
    return int(tracks[int(np.argmin(begun))])


@dataclass(frozen=True, eq=False)
class Stretches(Columns):
    """Stretches of threads, arrays of shape (n,), without gaps; ``wait`` is the position of the wait, or -1."""

    track: Rows
    start_ns: Rows
    end_ns: Rows
    wait: Rows

    def ending_at(self, track: Rows, moment_ns: Rows) -> Rows:
        """The stretch over at each moment of a thread, -1 before the first; moments in a wait belong before it."""
        result = np.full(len(moment_ns), NONE, dtype=np.int64)
        for number in np.unique(track):
            mine = np.flatnonzero(self.track == number)
            asked = np.flatnonzero(track == number)
            if len(mine):
                place = np.searchsorted(self.end_ns[mine], moment_ns[asked], side="right") - 1
                result[asked] = np.where(place >= 0, mine[np.maximum(place, 0)], NONE)
        return result

    def predecessors(self) -> Rows:
        """The stretch before each one on its thread, -1 for a thread's first."""
        result = np.arange(-1, len(self.track) - 1)
        result[np.append(True, self.track[1:] != self.track[:-1])[: len(result)]] = NONE
        return result


@dataclass(frozen=True, eq=False)
class Spans(Columns):
    """Spans of threads during which they wait; disjoint on each thread; arrays of shape (n,)."""

    track: Rows
    start_ns: Rows
    end_ns: Rows


def cut_threads(
    tracks: list[int], start_ns: int, ends: dict[int, int], waits: Spans, marks: dict[int, Rows]
) -> Stretches:
    """Stretches of each thread from ``start_ns`` on, cut at marks and waits, until ``ends[track]`` or the last."""
    parts = [_cut(track, start_ns, ends.get(track), waits, marks.get(track)) for track in tracks]
    columns = [np.concatenate([part[column] for part in parts]) for column in range(4)]
    return Stretches(*columns)


def _cut(track: int, start_ns: int, end_ns: int | None, waits: Spans, marks: Rows | None) -> list[Rows]:
    mine = np.flatnonzero(waits.track == track)
    mine = mine[np.argsort(waits.start_ns[mine], kind="stable")]
    begin, end = waits.start_ns[mine], waits.end_ns[mine]
    plain = np.empty(0, dtype=np.int64) if marks is None else marks
    place = np.searchsorted(begin, plain, side="right") - 1
    at = np.maximum(place, 0)
    kept = plain[~((place >= 0) & (plain > begin[at]) & (plain < end[at]))] if len(mine) else plain
    extra = np.array([start_ns] if end_ns is None else [start_ns, end_ns], dtype=np.int64)
    bounds = distinct(np.concatenate((extra, begin, end, kept)))
    bounds = bounds[bounds >= start_ns]
    wait = np.full(max(len(bounds) - 1, 0), NONE, dtype=np.int64)
    wait[np.searchsorted(bounds, begin)] = mine
    return [np.full(len(wait), track, dtype=np.int64), bounds[:-1], bounds[1:], wait]


BURST_GAP_NS = 100_000  # a thread idle for less than this is still busy: Python between two operators
ALTERNATING_SHARE = 0.1  # threads that work at the same time for more than this share do not wait for each other


@dataclass(frozen=True, eq=False)
class Handovers(Columns):
    """Spans of one thread that end after another thread has reached a moment; arrays of shape (n,)."""

    track: Rows
    start_ns: Rows
    end_ns: Rows
    other_track: Rows
    other_ns: Rows  # what the thread waits for: the other one's progress up to this moment


def handovers(rank: RankProfile, main: int, others: list[int], start_ns: int, end_ns: int) -> Handovers:
    """Waits between the main thread and others, inferred: a thread idles while another starts and finishes a burst."""
    main_busy = busy(rank, main, start_ns, end_ns)
    idle = complement(main_busy, start_ns, end_ns)
    parts = [np.empty((0, 5), dtype=np.int64)]
    for other in others:
        work = busy(rank, other, start_ns, end_ns)
        if not len(work):
            continue
        filled = merge(work, np.column_stack((work[:, 1], work[:, 1] + BURST_GAP_NS)))
        bursts = np.column_stack((filled[:, 0], filled[:, 1] - BURST_GAP_NS))
        parts.append(_woken(main, other, idle, bursts, start_ns))
        if length(intersect(main_busy, work)) <= ALTERNATING_SHARE * length(work):
            parts.append(_awaited(main, other, idle, bursts))
    return Handovers(*np.concatenate(parts).T)


def busy(rank: RankProfile, track: int, start_ns: int, end_ns: int) -> IntervalSet:
    """Operators and runtime calls of a thread in the window; enclosing operators not while a collective runs."""
    rows = np.flatnonzero((rank.track == track) & (rank.start < end_ns) & (rank.end > start_ns))
    rows = rows[np.isin(rank.kind[rows], (int(EventKind.OPERATOR), int(EventKind.RUNTIME)))]
    begin, end = np.maximum(rank.start[rows], start_ns), np.minimum(rank.end[rows], end_ns)
    if rank.rank.has_device:
        return union(begin, end)
    encloses = rank.named("enclosing_operator")[rows]
    waiting = rank.covered(rank.host_collective_rows)
    return merge(union(begin[~encloses], end[~encloses]), subtract(union(begin[encloses], end[encloses]), waiting))


def _woken(main: int, other: int, idle: IntervalSet, bursts: IntervalSet, start_ns: int) -> Rows:
    """The other thread's idleness before each burst that the main thread woke."""
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
