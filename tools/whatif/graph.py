"""The dependency graph of some steps: arrays of nodes and edges, and the order in which it is replayed.

A node is a stretch of time of one host thread, a device operation, or a collective's transfer. It starts when every
edge into it allows: ``start = max(end[source] + lag)``; it ends ``own_ns`` later. A wait (a synchronising call, a
thread that waits for another) is a node whose ``own_ns`` is what it lasted after the awaited thing had happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tools.whatif.operations import Columns, Rows
from tools.whatif.window import Window

ORIGIN = 0  # the node at the start of the window


class NodeKind(IntEnum):
    """What a node stands for."""

    ORIGIN = 0  # the start of the window
    HOST = 1
    WAIT = 2  # on a host thread
    DEVICE = 3  # also a host collective of a rank without a device
    ARRIVAL = 4  # a rank is ready for a collective
    TRANSFER = 5  # a collective's transfer, shared by its ranks
    DONE = 6  # the collective is over on one rank


class EdgeKind(IntEnum):
    """Why one node waits for another. When several bind at once, the larger number is called the cause."""

    FIXED = 0  # relative to the start of the window
    THREAD = 1
    STREAM = 2
    LAUNCH = 3
    INFERRED = 4  # between streams, not recorded: taken from the order of events
    EVENT = 5  # between streams, as recorded
    HANDOVER = 6
    SYNC = 7
    COLLECTIVE = 8


@dataclass(frozen=True, eq=False)
class Nodes:
    """Arrays of shape (n,); node 0 is the origin. ``busy`` time is ``[end_ns - own_ns, end_ns)``."""

    kind: NDArray[np.int8]
    rank: Rows
    track: Rows
    row: Rows  # representative event, -1 for none
    end_ns: Rows
    own_ns: Rows
    frozen: NDArray[np.bool_]  # not part of what a change applies to
    collective: Rows  # the TRANSFER node whose time the node's own interval stands for, -1 for none
    begin_ns: Rows  # start of the recorded interval (with waiting)

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, eq=False)
class Edges(Columns):
    """Arrays of shape (m,), by target; ``lag_ns`` is the least delay. While a rank is built, ends are positions."""

    source: Rows
    target: Rows
    lag_ns: Rows
    kind: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.source)


def link(source: Rows, target: Rows, kind: EdgeKind, lag_ns: Rows | None = None) -> Edges:
    """Edges of one kind, by default without delay."""
    lag = np.zeros(len(source), dtype=np.int64) if lag_ns is None else lag_ns
    return Edges(source, target, lag, np.full(len(source), int(kind), dtype=np.int8))


@dataclass(frozen=True, eq=False)
class TrackParts:
    """What a change of one track's pace applies to."""

    nodes: Rows  # those that are not frozen
    gaps: Rows  # edges: positive delays between operations of a stream


@dataclass(frozen=True, eq=False)
class Graph:
    """The graph of the window. ``order`` lists the nodes so that every edge points forward."""

    window: Window
    nodes: Nodes
    edges: Edges
    order: Rows
    residual_ns: Rows  # per node: delay of its start that no dependency explains (kept as lag)
    dropped: int  # edges that contradict the recorded times and were left out

    @property
    def recorded_end_ns(self) -> int:
        """The moment at which the last node ended."""
        return int(self.nodes.end_ns.max())

    @cached_property
    def tracks(self) -> dict[tuple[int, int], TrackParts]:
        """By rank and track; sorted once, because every replay asks for it."""
        nodes, edges = self.nodes, self.edges
        free = np.flatnonzero(~nodes.frozen)
        gaps = np.flatnonzero((edges.kind == EdgeKind.STREAM) & (edges.lag_ns > 0) & ~nodes.frozen[edges.target])
        own, between = _by_track(nodes, free, free), _by_track(nodes, edges.target[gaps], gaps)
        none = np.empty(0, dtype=np.int64)
        return {key: TrackParts(mine, between.get(key, none)) for key, mine in own.items()}


def _by_track(nodes: Nodes, at: Rows, members: Rows) -> dict[tuple[int, int], Rows]:
    """The members, each of which belongs to the node at its place, by rank and track of that node."""
    if not len(at):
        return {}
    rank, track = nodes.rank[at], nodes.track[at]
    order = np.lexsort((track, rank))
    rank, track = rank[order], track[order]
    first = np.flatnonzero(np.append(True, (np.diff(rank) != 0) | (np.diff(track) != 0)))
    keys = zip(rank[first].tolist(), track[first].tolist(), strict=True)
    return dict(zip(keys, np.split(members[order], first[1:]), strict=True))


def settle(window: Window, nodes: Nodes, edges: Edges) -> Graph:
    """Order the graph and fit its lags to the record; unexplained delay is added to the binding edge's lag."""
    start = nodes.end_ns - nodes.own_ns
    allowed = start[edges.target] - nodes.end_ns[edges.source]
    possible = (allowed >= 0) | (edges.kind == EdgeKind.COLLECTIVE) | (edges.kind == EdgeKind.FIXED)
    phase = _phases(nodes, edges, possible)
    forward = possible & (
        (nodes.end_ns[edges.source] < nodes.end_ns[edges.target])
        | ((nodes.end_ns[edges.source] == nodes.end_ns[edges.target]) & (phase[edges.source] < phase[edges.target]))
    )
    kept = _with_fixed(nodes, edges.taken(forward), start)
    kept, residual = _exact(nodes, kept, start)
    order = np.lexsort((phase, nodes.end_ns))
    return Graph(window, nodes, kept, order, residual, int(np.count_nonzero(~forward)))


def _with_fixed(nodes: Nodes, edges: Edges, start: Rows) -> Edges:
    """The edges by target; nodes that depend on nothing known keep their distance from the start of the window."""
    free = np.ones(len(nodes), dtype=bool)
    free[edges.target] = False
    free[ORIGIN] = False
    target = np.flatnonzero(free)
    fixed = link(np.full(len(target), ORIGIN), target, EdgeKind.FIXED, start[target] - nodes.end_ns[ORIGIN])
    both = edges.joined(fixed)
    return both.taken(np.argsort(both.target, kind="stable"))


def _phases(nodes: Nodes, edges: Edges, possible: NDArray[np.bool_]) -> Rows:
    """Order among nodes that end at the same moment: after everything they depend on."""
    phase = np.zeros(len(nodes), dtype=np.int64)
    tied = np.flatnonzero(possible & (nodes.end_ns[edges.source] == nodes.end_ns[edges.target]))
    source, target = edges.source[tied], edges.target[tied]
    for _ in range(64):
        late = phase[target] <= phase[source]
        if not late.any():
            break
        np.maximum.at(phase, target[late], phase[source[late]] + 1)
    return phase


def _exact(nodes: Nodes, edges: Edges, start: Rows) -> tuple[Edges, Rows]:
    """Edges with lags that make every node start when it did, and the part of them that nothing explains."""
    allowed = start[edges.target] - nodes.end_ns[edges.source]
    lag = np.minimum(edges.lag_ns, allowed)
    ready = nodes.end_ns[edges.source] + lag
    order = np.lexsort((edges.kind, ready, edges.target))
    last = order[np.flatnonzero(np.diff(edges.target[order], append=np.iinfo(np.int64).max))]
    residual = np.zeros(len(nodes), dtype=np.int64)
    residual[edges.target[last]] = allowed[last] - lag[last]
    lag[last] = allowed[last]
    return Edges(edges.source, edges.target, lag, edges.kind), residual


def binding_edges(graph: Graph) -> Rows:
    """For each node the edge that let it start when it did in the record, -1 for the origin."""
    nodes, edges = graph.nodes, graph.edges
    slack = (nodes.end_ns - nodes.own_ns)[edges.target] - nodes.end_ns[edges.source] - edges.lag_ns
    tight = np.flatnonzero(slack == 0)
    best = tight[np.lexsort((edges.kind[tight], edges.target[tight]))]
    result = np.full(len(nodes), -1, dtype=np.int64)
    result[edges.target[best]] = best
    return result
