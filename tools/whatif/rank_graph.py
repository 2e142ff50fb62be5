"""The part of the dependency graph that lies on one rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.views.rank_profile import RankProfile
from tools.whatif.graph import EdgeKind
from tools.whatif.host_collectives import host_operations, host_waits
from tools.whatif.links import Links, joined, link
from tools.whatif.operations import (
    NONE,
    Operations,
    Rows,
    gap_ns,
    launch_latency_ns,
    operations,
    prepared,
    stream_predecessors,
)
from tools.whatif.stream_order import device_edges
from tools.whatif.thread_handoff import Handovers, handovers
from tools.whatif.threads import Spans, Stretches, cut_threads, main_track
from tools.whatif.waits import Waits, device_waits


@dataclass(frozen=True, eq=False)
class RankGraph:
    """Stretches of host threads, device operations, and the edges among and between them."""

    rank: RankProfile
    start_ns: int
    stretches: Stretches
    stretch_row: Rows
    own_ns: Rows  # of each stretch
    ops: Operations
    thread: Links  # stretch -> stretch
    launch: Links  # stretch -> operation
    device: Links  # operation -> operation
    sync: Links  # operation -> stretch


def rank_graph(rank: RankProfile, start_ns: int, end_ns: int) -> RankGraph:
    """The rank's graph in the window."""
    main = main_track(rank)
    has_device = rank.rank.has_device
    ops = operations(rank, start_ns, end_ns) if has_device else host_operations(rank, main, start_ns, end_ns)
    previous = stream_predecessors(ops)
    latency = launch_latency_ns(ops, previous)
    ops = prepared(ops, previous, latency)
    driving = {int(track) for track in rank.training_tracks} | {int(t) for t in np.unique(ops.host_track[ops.linked])}
    others = sorted(driving - {main})
    waits = device_waits(rank, ops, start_ns, end_ns) if has_device else host_waits(rank, ops, main, start_ns, end_ns)
    handed = handovers(rank, main, others, start_ns, end_ns)
    waits, spans, handed = _spans(waits, handed, start_ns, end_ns)
    ends = {main: end_ns}
    anchor = np.where(ops.host_track == main, np.minimum(ops.anchor_ns, end_ns), ops.anchor_ns)
    stretches = cut_threads([main, *others], start_ns, ends, spans, _marks(ops, anchor, handed))
    own, row = _own(stretches, waits, handed, ops)
    thread = _thread_links(stretches, handed, len(waits.row))
    return RankGraph(
        rank=rank,
        start_ns=start_ns,
        stretches=stretches,
        stretch_row=row,
        own_ns=own,
        ops=ops,
        thread=thread,
        launch=_launch_links(stretches, ops, anchor, latency),
        device=device_edges(rank, ops, previous, gap_ns(ops, previous)),
        sync=_sync_links(stretches, waits),
    )


def _spans(waits: Waits, handed: Handovers, start_ns: int, end_ns: int) -> tuple[Waits, Spans, Handovers]:
    """Waits inside the window, first those for the device, then the hand-overs that do not overlap them."""
    inside = (waits.start_ns >= start_ns) & (waits.end_ns <= end_ns)
    number = np.cumsum(inside) - 1
    kept = inside[waits.wait]
    waits = Waits(
        waits.row[inside],
        waits.track[inside],
        waits.start_ns[inside],
        waits.end_ns[inside],
        number[waits.wait[kept]],
        waits.operation[kept],
    )
    free = ~_overlapping(handed, waits) & (handed.end_ns > handed.start_ns)
    handed = Handovers(*(getattr(handed, name)[free] for name in handed.__dataclass_fields__))
    spans = Spans(*(np.concatenate((getattr(waits, n), getattr(handed, n))) for n in Spans.__dataclass_fields__))
    return waits, spans, handed


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
    """Own time and representative row of each stretch."""
    after = np.concatenate((waits.start_ns, handed.other_ns))
    np.maximum.at(after, waits.wait, ops.end_ns[waits.operation])
    rows = np.concatenate((waits.row, np.full(len(handed.track), NONE)))
    is_wait = stretches.wait >= 0
    begin = stretches.start_ns.copy()
    begin[is_wait] = np.maximum(begin[is_wait], after[stretches.wait[is_wait]])
    row = np.full(len(begin), NONE, dtype=np.int64)
    row[is_wait] = rows[stretches.wait[is_wait]]
    return np.maximum(stretches.end_ns - begin, 0), row


def _thread_links(stretches: Stretches, handed: Handovers, first: int) -> Links:
    order = np.arange(len(stretches.track))
    before = link(stretches.predecessors(), order, EdgeKind.THREAD)
    target = np.flatnonzero(stretches.wait >= first)
    which = stretches.wait[target] - first
    source = stretches.ending_at(handed.other_track[which], handed.other_ns[which])
    return joined(before, link(source, target, EdgeKind.HANDOVER))


def _launch_links(stretches: Stretches, ops: Operations, anchor: Rows, latency_ns: int) -> Links:
    launched = np.flatnonzero(ops.linked & ~ops.fixed)
    source = stretches.ending_at(ops.host_track[launched], anchor[launched])
    return link(source, launched, EdgeKind.LAUNCH, np.full(len(launched), latency_ns))


def _sync_links(stretches: Stretches, waits: Waits) -> Links:
    place = np.full(len(waits.row), NONE, dtype=np.int64)
    at = np.flatnonzero((stretches.wait >= 0) & (stretches.wait < len(waits.row)))
    place[stretches.wait[at]] = at
    target = place[waits.wait]
    known = target >= 0
    return link(waits.operation[known], target[known], EdgeKind.SYNC)
