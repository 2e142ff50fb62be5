"""Edges between device operations: order on a stream, events between streams, and what has to be inferred."""

from __future__ import annotations

import numpy as np

from tools.run.events import EventKind
from tools.views.rank_profile import RankProfile
from tools.whatif.graph import EdgeKind
from tools.whatif.links import Links, joined, link
from tools.whatif.operations import NEIGHBOUR_NS, NEIGHBOUR_SHARE, NONE, Operations, Rows, latest_before
from tools.whatif.waits import called_ns


def device_edges(rank: RankProfile, ops: Operations, previous: Rows, gap_ns: int) -> Links:
    """Edges from operation to operation. Lags are the smallest that occur; what lasted longer is settled later."""
    moving = np.flatnonzero(previous >= 0)
    order = link(previous[moving], moving, EdgeKind.STREAM, np.full(len(moving), gap_ns))
    recorded = _recorded(rank, ops)
    guessed = _communication_inputs(ops) if not len(recorded.source) else link(*_no_pairs(), EdgeKind.INFERRED)
    known = joined(order, recorded, guessed)
    return joined(known, _neighbours(ops, known))


def _no_pairs() -> tuple[Rows, Rows]:
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)


def _recorded(rank: RankProfile, ops: Operations) -> Links:
    """Stream waits that the profiler recorded: the next operation of a stream waits for another stream's last one."""
    syncs = rank.events.details.syncs
    pairs = [_no_pairs()]
    if len(syncs) and len(ops):
        ids = rank.events.frame["correlation"].to_numpy()[syncs["row"].to_numpy()]
        waiting = syncs["sync_kind"].astype(str).str.contains("Wait Event").to_numpy() & (ids >= 0)
        asked, stream, other = _wait_calls(rank, ids[waiting]), syncs["stream"], syncs["wait_on_stream"]
        launched = called_ns(rank, syncs["wait_on_record_correlation"].to_numpy()[waiting])
        own, awaited = stream.to_numpy()[waiting], other.to_numpy()[waiting]
        known = (asked >= 0) & (launched >= 0)
        pairs += _between(rank, ops, asked[known], launched[known], own[known], awaited[known])
    source, target = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return link(source, target, EdgeKind.EVENT)


def _wait_calls(rank: RankProfile, ids: Rows) -> Rows:
    """Start of the runtime calls with these correlation ids, -1 when not recorded."""
    calls = np.flatnonzero((rank.kind == EventKind.RUNTIME) & rank.named("stream_wait"))
    known = rank.events.frame["correlation"].to_numpy()[calls]
    if not len(calls):
        return np.full(len(ids), NONE, dtype=np.int64)
    order = np.argsort(known, kind="stable")
    place = order[np.minimum(np.searchsorted(known[order], ids), len(order) - 1)]
    return np.where(known[place] == ids, rank.start[calls[place]], NONE)


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
        target = _first_after(ops, members[int(stream)], asked[which])
        good = (source >= 0) & (target >= 0)
        pairs.append((source[good], target[good]))
    return pairs


def _first_after(ops: Operations, members: Rows, asked: Rows) -> Rows:
    called = np.maximum.accumulate(ops.call_start_ns[members])
    place = np.searchsorted(called, asked, side="left")
    return np.where(place < len(members), members[np.minimum(place, len(members) - 1)], NONE)


def _communication_inputs(ops: Operations) -> Links:
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


def _neighbours(ops: Operations, known: Links) -> Links:
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
