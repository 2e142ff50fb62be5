"""Where a host thread waits: for the device, or for a collective of a rank without one.

A wait is a span of a host thread together with the operations it cannot end before. What the span lasts after the
latest of them has ended is the thread's own time; so a call that found its work done is all own time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet, complement
from tools.run.events import EventKind
from tools.views.rank_profile import RankProfile
from tools.whatif.operations import NONE, Operations, Rows, latest_before, launched, place_of
from tools.whatif.threads import busy

DEVICE_WIDE = ("DeviceSynchronize", "CtxSynchronize", "QueueFinish")  # wait for every stream
RETURN_NS = 50_000  # a waiting call returns within this time after the work it waited for, or
RETURN_SHARE = 0.01  # within this share of its own length: a thread that slept long is woken later
BLOCKING_SHARE = 0.5  # a kernel that fills this share of its launching call was waited for
FULL_QUEUE = 128  # pending operations from which on a long launch is taken to wait for a place in the queue
LONG_CALL = 5.0  # times the usual launch, which is the lower quartile: in a full queue many launches are long


@dataclass(frozen=True, eq=False)
class Waits:
    """Spans of host threads, arrays of shape (n,), and pairs (wait, operation) of shape (m,)."""

    row: Rows
    track: Rows
    start_ns: Rows
    end_ns: Rows
    wait: Rows  # positions in the arrays above
    operation: Rows  # positions in the rank's operations

    def taken(self, which: NDArray[np.bool_]) -> Waits:
        """Only these waits."""
        number, pairs = np.cumsum(which) - 1, which[self.wait]
        row, track, start_ns, end_ns = (each[which] for each in (self.row, self.track, self.start_ns, self.end_ns))
        return Waits(row, track, start_ns, end_ns, number[self.wait[pairs]], self.operation[pairs])


def device_waits(rank: RankProfile, ops: Operations, start_ns: int, end_ns: int) -> Waits:
    """All waits of host threads for the device in the window; of nested calls the outermost."""
    found = (_synchronising(rank, ops, start_ns, end_ns), _blocking(ops), _full_queue(ops))
    first = np.cumsum([0, *(len(part.row) for part in found)])
    parts = [replace(part, wait=part.wait + at) for part, at in zip(found, first, strict=False)]
    names = Waits.__dataclass_fields__
    waits = Waits(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
    order = np.lexsort((-waits.end_ns, waits.start_ns, waits.track))
    keep = np.zeros(len(order), dtype=bool)
    for track in np.unique(waits.track):
        mine = order[waits.track[order] == track]
        reach = np.maximum.accumulate(waits.end_ns[mine])
        keep[mine] = np.append(True, waits.start_ns[mine[1:]] >= reach[:-1])
    return waits.taken(keep)


def _synchronising(rank: RankProfile, ops: Operations, start_ns: int, end_ns: int) -> Waits:
    calls = (rank.kind == EventKind.RUNTIME) & (rank.named("synchronization") | rank.named("device_free"))
    rows = np.flatnonzero(calls & (rank.start >= start_ns) & (rank.end <= end_ns) & (rank.end > rank.start))
    stream, launched = _recorded(rank, rows)
    launched = np.where(launched >= 0, launched, rank.start[rows])
    streams = ops.streams()
    first = np.array([mine[0] for mine in streams], dtype=np.int64)
    numbers = rank.events.tracks["stream"].to_numpy()[ops.track[first]]
    candidates = [latest_before(ops, mine, launched, rank.end[rows]) for mine in streams]
    table = np.array(candidates, dtype=np.int64).reshape(len(candidates), len(rows))
    # A call waits for every stream, for the recorded one, or else for what ended last inside and near its return.
    everything = np.array([any(word in name for word in DEVICE_WIDE) for name in rank.names(rows)], dtype=bool)
    everything |= rank.named("device_free")[rows]
    ended = np.where(table >= 0, ops.end_ns[np.maximum(table, 0)], -1) if len(ops) else np.zeros(table.shape, np.int64)
    soon = np.maximum(RETURN_NS, RETURN_SHARE * (rank.end[rows] - rank.start[rows]))
    inside = (ended > rank.start[rows]) & (ended >= rank.end[rows] - soon)
    latest = (ended == ended.max(axis=0, initial=-1)) & inside
    wanted = everything | np.where(stream >= 0, numbers[:, None] == stream, latest)
    which, wait = np.nonzero(wanted & (table >= 0))
    return Waits(rows, _thread_lanes(rank, rows), rank.start[rows], rank.end[rows], wait, table[which, wait])


def _thread_lanes(rank: RankProfile, rows: Rows) -> Rows:
    """The lane of the thread that makes each call.

    Ascend's profiler shows the calls of CANN in lanes of their own, next to the operators of the same thread, which
    block in them.
    """
    thread = rank.events.tracks["tid"].astype(str).to_numpy()
    lanes = np.arange(len(thread), dtype=np.int64)
    for track in rank.training_tracks.tolist():
        if (rank.kind[rank.track == track] == EventKind.OPERATOR).any():
            lanes[(thread == thread[track]) & ~np.isin(lanes, rank.training_tracks)] = track
    return np.asarray(lanes[rank.track[rows]], dtype=np.int64)


def _recorded(rank: RankProfile, rows: Rows) -> tuple[Rows, Rows]:
    """The stream that each call waited for by the profiler, and the start of the launch until which; -1 for unknown."""
    syncs, ids = rank.events.details.syncs, rank.events.frame["correlation"].to_numpy()
    if syncs.empty:
        return np.full(len(rows), NONE), np.full(len(rows), NONE)
    place = place_of(ids[rows], ids[syncs["row"].to_numpy()])
    columns = ("stream", "wait_on_stream", "wait_on_record_correlation")
    own, other, record = (syncs[name].to_numpy()[place] for name in columns)
    stream, launched = np.where(other >= 0, other, own), called_ns(rank, "event_record", record)
    return np.where(place >= 0, stream, NONE), np.where(place >= 0, launched, NONE)


def called_ns(rank: RankProfile, pattern: str, correlation: Rows) -> Rows:
    """Start of the runtime call of that name pattern with each correlation id, -1 when it was not recorded."""
    calls = np.flatnonzero((rank.kind == EventKind.RUNTIME) & rank.named(pattern))
    place = place_of(correlation, rank.events.frame["correlation"].to_numpy()[calls])
    return np.where(place >= 0, rank.start[calls][place], NONE) if len(calls) else place


def _blocking(ops: Operations) -> Waits:
    """Launching calls that end after the operation they launched: copies always, kernels when they fill the call."""
    inside = ops.linked & ~ops.fixed & (ops.start_ns >= ops.call_start_ns) & (ops.end_ns <= ops.call_end_ns)
    filled = (ops.end_ns - ops.start_ns) >= BLOCKING_SHARE * (ops.call_end_ns - ops.call_start_ns)
    return _calls(ops, np.flatnonzero(inside & (filled | ops.copied)))


def _full_queue(ops: Operations) -> Waits:
    """Long launching calls that return when the device has just finished something, while very many are pending."""
    linked = np.flatnonzero(ops.linked & ~ops.fixed)
    lasted = (ops.call_end_ns - ops.call_start_ns)[linked]
    if not len(linked):
        return _calls(ops, linked)
    long = linked[(lasted >= LONG_CALL * np.percentile(lasted, 25)) & (lasted >= RETURN_NS) & ~ops.copied[linked]]
    chosen, before = [], []
    for mine in ops.streams():
        here = long[ops.track[long] == ops.track[mine[0]]]
        pending = np.searchsorted(np.sort(ops.call_start_ns[mine]), ops.call_start_ns[here])
        pending -= np.searchsorted(np.sort(ops.end_ns[mine]), ops.call_start_ns[here])
        last = latest_before(ops, mine, ops.call_start_ns[here], ops.call_end_ns[here])
        ended = ops.end_ns[np.maximum(last, 0)]
        full = (pending >= FULL_QUEUE) & (last >= 0) & (ended > ops.call_start_ns[here])
        full &= ended >= ops.call_end_ns[here] - RETURN_NS
        chosen.append(here[full])
        before.append(last[full])
    return _calls(ops, np.concatenate(chosen), np.concatenate(before))


def _calls(ops: Operations, positions: Rows, waited_for: Rows | None = None) -> Waits:
    rows, first = np.unique(ops.launch_row[positions], return_index=True)
    at = positions[first]
    target = at if waited_for is None else waited_for[first]
    begin = np.where(ops.anchor_ns[at] < ops.call_end_ns[at], ops.anchor_ns[at], ops.call_start_ns[at])
    return Waits(rows, ops.host_track[at], begin, ops.call_end_ns[at], np.arange(len(at)), target)


# A collective there is a span on a worker thread of the communication library (``gloo:all_reduce``). It is treated like
# a device operation: launched by an operator of the training thread, run in order on its own track, waited for later.


RESUME_NS = 1_000_000  # the training thread resumes within this time after the collective it waited for, or
RESUME_SHARE = 0.2  # within this share of its own idleness


def host_operations(rank: RankProfile, main: int, start_ns: int, end_ns: int) -> Operations:
    """The collectives under way in the window, as operations; see ``tools.whatif.operations``."""
    spans = rank.host_collective_rows
    starters = _starters(rank, spans)
    inside = (rank.end[spans] > start_ns) & (rank.start[spans] < end_ns)
    recorded = launched(rank, spans[inside], starters[inside])
    begun = np.where(recorded.linked, recorded.call_start_ns, recorded.start_ns)
    recorded = replace(recorded, fixed=begun < start_ns)
    idle = complement(busy(rank, main, start_ns, end_ns), start_ns, end_ns)
    woken, _ = _awaited(recorded, idle)
    silent = np.ones(len(idle), dtype=bool)
    silent[woken] = False
    silent &= idle[:, 1] - idle[:, 0] >= RESUME_NS
    ended = recorded.end_ns.copy()
    for begin, resumed in idle[silent]:
        soon = begin + RESUME_SHARE * (resumed - begin)
        running = np.flatnonzero((recorded.start_ns <= soon) & (ended > resumed) & ~recorded.fixed)
        if len(running):
            ended[running[0]] = resumed
    return replace(recorded, end_ns=ended)


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
