"""Applies a change to the graph: new own times of nodes and new lags of edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.profilers.profile import Profile
from tools.whatif.change import Change, Scale, Unblock
from tools.whatif.graph import EdgeKind, Graph, NodeKind, Numbers

NEVER_NS = -(1 << 60)  # a lag that makes an edge ineffective


@dataclass(frozen=True, eq=False)
class Times:
    """What a replay needs: own time of every node and lag of every edge, in ns."""

    own_ns: Numbers
    lag_ns: Numbers


@dataclass(frozen=True, eq=False)
class Clock:
    """How long the stretches of one track take after a change: a piecewise linear map of moments."""

    edges_ns: Numbers
    factor: NDArray[np.float64]  # of the stretch that begins at each edge
    passed: NDArray[np.float64]  # changed time since the first edge

    def at(self, moment_ns: Numbers) -> NDArray[np.float64]:
        """Changed time from the first edge to each moment."""
        place = np.clip(np.searchsorted(self.edges_ns, moment_ns, side="right") - 1, 0, len(self.edges_ns) - 1)
        since = (moment_ns - self.edges_ns[place]).astype(np.float64)
        before = moment_ns < self.edges_ns[0]
        return np.where(before, since, self.passed[place] + since * self.factor[place])

    def lasting(self, start_ns: Numbers, end_ns: Numbers) -> Numbers:
        """How long each stretch takes after the change."""
        return np.rint(self.at(end_ns) - self.at(start_ns)).astype(np.int64)


def clock_of(scales: Iterable[tuple[Numbers, float]]) -> Clock:
    """The map for one track from pairs (intervals, factor); where several apply, the strongest one counts."""
    known = [(intervals, factor) for intervals, factor in scales if len(intervals)]
    edges = np.unique(np.concatenate([intervals.ravel() for intervals, _ in known])).astype(np.int64)
    factor = np.ones(len(edges))
    for intervals, strength in known:
        place = np.searchsorted(intervals[:, 0], edges, side="right") - 1
        inside = (place >= 0) & (edges < intervals[np.maximum(place, 0), 1])
        stronger = np.abs(strength - 1.0) > np.abs(factor - 1.0)
        factor[inside & stronger] = strength
    passed = np.concatenate((np.zeros(1), np.cumsum(np.diff(edges) * factor[:-1])))
    return Clock(edges, factor, passed)


def recorded(graph: Graph) -> Times:
    """Times as recorded."""
    return Times(graph.nodes.own_ns, graph.edges.lag_ns)


def changed(profile: Profile, graph: Graph, change: Change) -> Times:
    """Times after the change."""
    own, lag = graph.nodes.own_ns.copy(), graph.edges.lag_ns.copy()
    tracks: dict[tuple[int, int], list[tuple[Numbers, float]]] = {}
    for part in change:
        if isinstance(part, Scale):
            tracks.setdefault((part.rank, part.track), []).append((part.intervals, part.factor))
        else:
            _unblock(profile, graph, part, lag)
    shares = np.ones(len(own))
    for (rank, track), scales in tracks.items():
        if any(len(intervals) for intervals, _ in scales):
            _scale(graph, rank, track, clock_of(scales), own, lag, shares)
    return Times(_transfers(graph, own, shares), lag)


def _scale(
    graph: Graph,
    rank: int,
    track: int,
    clock: Clock,
    own: Numbers,
    lag: Numbers,
    shares: NDArray[np.float64],
) -> None:
    nodes, edges = graph.nodes, graph.edges
    mine = np.flatnonzero((nodes.rank == rank) & (nodes.track == track) & ~nodes.frozen)
    own[mine] = clock.lasting(nodes.end_ns[mine] - nodes.own_ns[mine], nodes.end_ns[mine])
    done = mine[nodes.collective[mine] >= 0]
    moved = nodes.begin_ns[nodes.collective[done]]
    whole = np.maximum(nodes.end_ns[done] - moved, 1)
    shares[done] = clock.lasting(moved, nodes.end_ns[done]) / whole
    start = nodes.end_ns - nodes.own_ns
    here = np.zeros(len(nodes), dtype=bool)
    here[mine] = True
    gaps = np.flatnonzero((edges.kind == EdgeKind.STREAM) & here[edges.target] & (edges.lag_ns > 0))
    end = start[edges.target[gaps]]
    lag[gaps] = clock.lasting(end - edges.lag_ns[gaps], end)


def _transfers(graph: Graph, own: Numbers, shares: NDArray[np.float64]) -> Numbers:
    """A transfer is shared by its ranks: it becomes as fast as the change makes it on any of them."""
    done = np.flatnonzero(graph.nodes.kind == NodeKind.DONE)
    share = np.ones(len(own))
    np.minimum.at(share, graph.nodes.collective[done], shares[done])
    slower = np.ones(len(own))
    np.maximum.at(slower, graph.nodes.collective[done], shares[done])
    return np.where(graph.nodes.kind == NodeKind.TRANSFER, np.rint(own * share * slower), own).astype(np.int64)


def _unblock(profile: Profile, graph: Graph, part: Unblock, lag: Numbers) -> None:
    """The waits of these calls no longer wait; ``rows`` may also be spans (operators) around the calls."""
    rank = profile.rank(part.rank)
    nodes = graph.nodes
    rows = np.sort(part.rows)
    waits = np.flatnonzero((nodes.kind == NodeKind.WAIT) & (nodes.rank == part.rank) & (nodes.row >= 0))
    chosen = np.zeros(len(nodes), dtype=bool)
    for track in np.unique(rank.track[rows]):
        spans = rows[rank.track[rows] == track]
        mine = waits[nodes.track[waits] == track]
        reach = np.maximum.accumulate(rank.end[spans]) if len(spans) else rank.end[spans]
        place = np.searchsorted(rank.start[spans], nodes.begin_ns[mine], side="right") - 1
        chosen[mine] = (place >= 0) & (nodes.end_ns[mine] <= reach[np.maximum(place, 0)])
    lag[(graph.edges.kind == EdgeKind.SYNC) & chosen[graph.edges.target]] = NEVER_NS
