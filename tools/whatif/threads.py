"""Host threads cut into stretches between the moments at which something else depends on them or they wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.errors import InputError
from tools.views.rank_profile import RankProfile
from tools.whatif.operations import NONE, Rows


def main_track(rank: RankProfile) -> int:
    """The thread that carries the steps: with most step marks, else the first to do anything.

    Raises InputError for a rank of which only device work was recorded.
    """
    tracks = rank.training_tracks
    if not len(tracks):
        raise InputError(
            f"rank {rank.rank.rank} records device work but no host thread that launches it, so it cannot be said "
            "what the device waited for; profile with ProfilerActivity.CPU as well"
        )
    marks = rank.track[np.flatnonzero(rank.named("profiler_step"))]
    counts = np.array([(marks == track).sum() for track in tracks])
    if counts.any():
        return int(tracks[counts.argmax()])
    begun = [rank.start[rank.track == track].min(initial=np.iinfo(np.int64).max) for track in tracks]
    return int(tracks[int(np.argmin(begun))])


@dataclass(frozen=True, eq=False)
class Stretches:
    """Neighbouring stretches of the threads of one rank, arrays of shape (n,); each thread is covered without gaps.

    ``wait`` is the position of the wait that the stretch is, -1 for ordinary host time.
    """

    track: Rows
    start_ns: Rows
    end_ns: Rows
    wait: Rows

    def ending_at(self, track: Rows, moment_ns: Rows) -> Rows:
        """The stretch that is over at each moment of a thread; -1 before the thread's first stretch is over.

        A moment inside a wait belongs to what came before the wait.
        """
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
class Spans:
    """Spans of threads during which they wait; disjoint on each thread; arrays of shape (n,)."""

    track: Rows
    start_ns: Rows
    end_ns: Rows


def cut_threads(
    tracks: list[int], start_ns: int, ends: dict[int, int], waits: Spans, marks: dict[int, Rows]
) -> Stretches:
    """Stretches of each thread from ``start_ns`` on: cut at the marks, and at the start and end of its waits.

    A thread reaches until ``ends[track]`` if given, else until its last mark or wait.
    """
    parts = [_cut(track, start_ns, ends.get(track), waits, marks.get(track)) for track in tracks]
    columns = [np.concatenate([part[column] for part in parts]) for column in range(4)] if parts else [_none()] * 4
    return Stretches(*columns)


def _none() -> Rows:
    return np.empty(0, dtype=np.int64)


def _cut(track: int, start_ns: int, end_ns: int | None, waits: Spans, marks: Rows | None) -> list[Rows]:
    mine = np.flatnonzero(waits.track == track)
    mine = mine[np.argsort(waits.start_ns[mine], kind="stable")]
    begin, end = waits.start_ns[mine], waits.end_ns[mine]
    plain = _none() if marks is None else marks
    place = np.searchsorted(begin, plain, side="right") - 1
    inside = (
        (place >= 0) & (plain > begin[np.maximum(place, 0)]) & (plain < end[np.maximum(place, 0)])
        if len(mine)
        else None
    )
    kept = plain if inside is None else plain[~inside]
    extra = np.array([start_ns] if end_ns is None else [start_ns, end_ns], dtype=np.int64)
    bounds = np.unique(np.concatenate((extra, begin, end, kept)))
    bounds = bounds[bounds >= start_ns]
    wait = np.full(max(len(bounds) - 1, 0), NONE, dtype=np.int64)
    wait[np.searchsorted(bounds, begin)] = mine
    return [np.full(len(wait), track, dtype=np.int64), bounds[:-1], bounds[1:], wait]
