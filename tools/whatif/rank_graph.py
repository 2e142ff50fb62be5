"""The part of the dependency graph that lies on one rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.views.rank_profile import RankProfile
from tools.whatif.graph import EdgeKind, Edges, link
from tools.whatif.operations import (
    NEIGHBOUR_NS,
    NEIGHBOUR_SHARE,
    NONE,
    Operations,
    Rows,
    gap_ns,
    latest_before,
    launch_latency_ns,
    operations,
    prepared,
    stream_predecessors,
)
from tools.whatif.threads import Handovers, Spans, Stretches, cut_threads, handovers, main_track
from tools.whatif.waits import Waits, called_ns, device_waits, host_operations, host_waits


def device_edges(rank: RankProfile, ops: Operations, previous: Rows, gap_ns: int) -> Edges:
    """Edges from operation to operation. Lags are the smallest that occur; what lasted longer is settled later."""
    moving = np.flatnonzero(previous >= 0)
    order = link(previous[moving], moving, EdgeKind.STREAM, np.full(len(moving), gap_ns))
    recorded = _recorded(rank, ops)
    guessed = _communication_inputs(ops) if not len(recorded.source) else link(*_no_pairs(), EdgeKind.INFERRED)
    known = order.joined(recorded, guessed)
    return known.joined(_neighbours(ops, known))


def _no_pairs() -> tuple[Rows, Rows]:
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)


def _recorded(rank: RankProfile, ops: Operations) -> Edges:
    """Stream waits that the profiler recorded: the next operation of a stream waits for another stream's last one."""
    syncs = rank.events.details.syncs
    pairs = [_no_pairs()]
    if len(syncs) and len(ops):
        ids = rank.events.frame["correlation"].to_numpy()[syncs["row"].to_numpy()]
        waiting = syncs["sync_kind"].astype(str).str.contains("Wait Event").to_numpy() & (ids >= 0)
        asked = called_ns(rank, "stream_wait", ids[waiting])
        launched = called_ns(rank, "event_record", syncs["wait_on_record_correlation"].to_numpy()[waiting])
        own, awaited = (syncs[name].to_numpy()[waiting] for name in ("stream", "wait_on_stream"))
        known = (asked >= 0) & (launched >= 0)
        pairs += _between(rank, ops, asked[known], launched[known], own[known], awaited[known])
    source, target = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return link(source, target, EdgeKind.EVENT)


def _between(
    rank: RankProfile, ops: Operations, asked: Rows, launched: Rows, own: Rows, awaited: Rows
) -> list[tuple[Rows, Rows]]:
    """Pairs (last operation of the awaited stream before the record, first of the waiting stream after the call)."""
    numbers = rank.events.tracks["stream"].to_numpy()
    members = {int(numbers[ops.track[mine[0]]]): mine for mine in ops.streams()}
    pairs = []
    for stream, other in np.unique(np.column_stack((own, awaited)), axis=0):
        if int(stream) not in members or int(other) not in members or stream == other:
            continue
        which = (own == stream) & (awaited == other)
        source = latest_before(ops, members[int(other)], launched[which], np.full(which.sum(), np.iinfo(np.int64).max))
        mine = members[int(stream)]
        place = np.searchsorted(np.maximum.accumulate(ops.call_start_ns[mine]), asked[which], side="left")
        target = np.where(place < len(mine), mine[np.minimum(place, len(mine) - 1)], NONE)
        good = (source >= 0) & (target >= 0)
        pairs.append((source[good], target[good]))
    return pairs


def _communication_inputs(ops: Operations) -> Edges:
    """A collective reads what the thread that launched it had computed: the last operation launched before it."""
    sources, targets = [_no_pairs()[0]], [_no_pairs()[1]]
    for thread in np.unique(ops.host_track[ops.linked]):
        mine = np.flatnonzero(ops.linked & (ops.host_track == thread))
        mine = mine[np.argsort(ops.call_start_ns[mine], kind="stable")]
        moves = ops.communication[mine]
        last = np.maximum.accumulate(np.where(moves, NONE, np.arange(len(mine))))
        at = np.flatnonzero(moves & (last >= 0) & ~ops.fixed[mine])
        sources.append(mine[last[at]])
        targets.append(mine[at])
    source, target = np.concatenate(sources), np.concatenate(targets)
    fits = (ops.end_ns[source] <= ops.start_ns[target]) & (ops.track[source] != ops.track[target])
    return link(source[fits], target[fits], EdgeKind.INFERRED)


def _neighbours(ops: Operations, known: Edges) -> Edges:
    """Operations that start late although nothing known holds them, just after one of another stream has ended."""
    if not len(ops):
        return link(*_no_pairs(), EdgeKind.INFERRED)
    ready = np.where(ops.linked, ops.anchor_ns, np.iinfo(np.int64).min)
    np.maximum.at(ready, known.target, ops.end_ns[known.source] + known.lag_ns)
    late = np.flatnonzero((ops.start_ns - ready > NEIGHBOUR_NS) & (ready > np.iinfo(np.int64).min))
    best = np.full(len(late), NONE, dtype=np.int64)
    best_end = ready[late]
    near = np.maximum(NEIGHBOUR_NS, NEIGHBOUR_SHARE * (ops.start_ns - ready)[late])
    for mine in ops.streams():
        launched = np.where(ops.linked[late], ops.call_start_ns[late], ops.start_ns[late])
        candidate = latest_before(ops, mine, launched, ops.start_ns[late])
        ended = np.where(candidate >= 0, ops.end_ns[np.maximum(candidate, 0)], np.iinfo(np.int64).min)
        better = (ended > best_end) & (ops.start_ns[late] - ended <= near)
        better &= ops.track[late] != ops.track[mine[0]]
        best[better], best_end[better] = candidate[better], ended[better]
    found = best >= 0
    return link(best[found], late[found], EdgeKind.INFERRED)


@dataclass(frozen=True, eq=False)
class RankGraph:
    """Stretches of host threads, device operations, and the edges among and between them."""

    rank: RankProfile
    start_ns: int
    stretches: Stretches
    stretch_row: Rows
    own_ns: Rows  # of each stretch
    ops: Operations
    thread: Edges  # stretch -> stretch
    launch: Edges  # stretch -> operation
    device: Edges  # operation -> operation
    sync: Edges  # operation -> stretch


def rank_graph(rank: RankProfile, start_ns: int, end_ns: int) -> RankGraph:
    """The rank's graph in the window; without host threads where they run whole steps ahead and hold nothing back."""
    main, ahead = main_track(rank), bool(rank.rank.marks)
    has_device = rank.rank.has_device
    ops = operations(rank, start_ns, end_ns) if has_device else host_operations(rank, main, start_ns, end_ns)
    previous = stream_predecessors(ops)
    latency = launch_latency_ns(ops, previous)
    ops = prepared(ops, previous, latency)
    driving = {int(track) for track in rank.training_tracks} | {int(t) for t in np.unique(ops.host_track[ops.linked])}
    others = sorted(driving - {main})
    waits = device_waits(rank, ops, start_ns, end_ns) if has_device else host_waits(rank, ops, main, start_ns, end_ns)
    handed = handovers(rank, main, others, start_ns, end_ns)
    # Waits inside the window, first those for the device, then the hand-overs that do not overlap them.
    waits = waits.taken((waits.start_ns >= start_ns) & (waits.end_ns <= end_ns) & (not ahead))
    handed = handed.taken(~_overlapping(handed, waits) & (handed.end_ns > handed.start_ns) & (not ahead))
    spans = Spans(waits.track, waits.start_ns, waits.end_ns)
    spans = spans.joined(Spans(handed.track, handed.start_ns, handed.end_ns))
    ends = {main: start_ns if ahead else end_ns}
    anchor = np.where(ops.host_track == main, np.minimum(ops.anchor_ns, end_ns), ops.anchor_ns)
    stretches = cut_threads([main, *others], start_ns, ends, spans, _marks(ops, anchor, handed))
    own, row = _own(stretches, waits, handed, ops)
    launched = np.flatnonzero(ops.linked & ~ops.fixed)
    source = stretches.ending_at(ops.host_track[launched], anchor[launched])
    thread = _thread_links(stretches, handed, len(waits.row))
    return RankGraph(
        rank=rank,
        start_ns=start_ns,
        stretches=stretches,
        stretch_row=row,
        own_ns=own,
        ops=ops,
        thread=thread,
        launch=link(source, launched, EdgeKind.LAUNCH, np.full(len(launched), latency)),
        device=device_edges(rank, ops, previous, gap_ns(ops, previous)),
        sync=_sync_links(stretches, waits),
    )


def _overlapping(handed: Handovers, waits: Waits) -> NDArray[np.bool_]:
    result = np.zeros(len(handed.track), dtype=bool)
    for track in np.unique(handed.track):
        mine = np.flatnonzero(handed.track == track)
        theirs = np.flatnonzero(waits.track == track)
        theirs = theirs[np.argsort(waits.start_ns[theirs], kind="stable")]
        first = np.searchsorted(waits.end_ns[theirs], handed.start_ns[mine], side="right")
        stop = np.searchsorted(waits.start_ns[theirs], handed.end_ns[mine], side="left")
        result[mine] = stop > first
    return result


def _marks(ops: Operations, anchor: Rows, handed: Handovers) -> dict[int, Rows]:
    track = np.concatenate((ops.host_track, handed.other_track))
    moment = np.concatenate((anchor, handed.other_ns))
    moving = np.concatenate((ops.linked & ~ops.fixed, np.ones(len(handed.track), dtype=bool)))
    return {int(number): moment[moving & (track == number)] for number in np.unique(track[moving])}


def _own(stretches: Stretches, waits: Waits, handed: Handovers, ops: Operations) -> tuple[Rows, Rows]:
    after = np.concatenate((waits.start_ns, handed.other_ns))
    np.maximum.at(after, waits.wait, ops.end_ns[waits.operation])
    rows = np.concatenate((waits.row, np.full(len(handed.track), NONE)))
    is_wait = stretches.wait >= 0
    begin = stretches.start_ns.copy()
    begin[is_wait] = np.maximum(begin[is_wait], after[stretches.wait[is_wait]])
    row = np.full(len(begin), NONE, dtype=np.int64)
    row[is_wait] = rows[stretches.wait[is_wait]]
    return np.maximum(stretches.end_ns - begin, 0), row


def _thread_links(stretches: Stretches, handed: Handovers, first: int) -> Edges:
    order = np.arange(len(stretches.track))
    before = link(stretches.predecessors(), order, EdgeKind.THREAD)
    target = np.flatnonzero(stretches.wait >= first)
    which = stretches.wait[target] - first
    source = stretches.ending_at(handed.other_track[which], handed.other_ns[which])
    return before.joined(link(source, target, EdgeKind.HANDOVER))


def _sync_links(stretches: Stretches, waits: Waits) -> Edges:
    place = np.full(len(waits.row), NONE, dtype=np.int64)
    at = np.flatnonzero((stretches.wait >= 0) & (stretches.wait < len(waits.row)))
    place[stretches.wait[at]] = at
    target = place[waits.wait]
    known = target >= 0
    return link(waits.operation[known], target[known], EdgeKind.SYNC)
