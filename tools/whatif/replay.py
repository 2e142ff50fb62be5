"""Applies a change to the graph: new own times of nodes and new lags of edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tools.intervals import distinct
from tools.views.profile import Profile
from tools.views.recording_cost import RecordingCost, recording_costs
from tools.whatif.change import Change, Omit, Scale, Unblock
from tools.whatif.graph import EdgeKind, Edges, Graph, NodeKind
from tools.whatif.operations import Rows

NEVER_NS = -(1 << 60)  # a lag that makes an edge ineffective


@dataclass(frozen=True, eq=False)
class Times:
    """What a replay needs: own time of every node and lag of every edge, in ns."""

    own_ns: Rows
    lag_ns: Rows


@dataclass(frozen=True, eq=False)
class Clock:
    """How long the stretches of one track take after a change: a piecewise linear map of moments."""

    edges_ns: Rows
    factor: NDArray[np.float64]  # of the stretch that begins at each edge
    passed: NDArray[np.float64]  # changed time since the first edge

    def at(self, moment_ns: Rows) -> NDArray[np.float64]:
        """Changed time from the first edge to each moment."""
        place = np.clip(np.searchsorted(self.edges_ns, moment_ns, side="right") - 1, 0, len(self.edges_ns) - 1)
        since = (moment_ns - self.edges_ns[place]).astype(np.float64)
        before = moment_ns < self.edges_ns[0]
        return np.where(before, since, self.passed[place] + since * self.factor[place])

    def left_of(self, cost: RecordingCost, moment_ns: Rows) -> NDArray[np.float64]:
        """What is left after the change of what recording took from the first edge to each moment."""
        at_edges = cost.until(self.edges_ns)
        passed = np.concatenate((np.zeros(1), np.cumsum(np.diff(at_edges) * self.factor[:-1])))
        place = np.clip(np.searchsorted(self.edges_ns, moment_ns, side="right") - 1, 0, len(self.edges_ns) - 1)
        since = cost.until(moment_ns) - at_edges[place]
        return np.where(moment_ns < self.edges_ns[0], since, passed[place] + since * self.factor[place])

    def lasting(self, start_ns: Rows, end_ns: Rows) -> Rows:
        """How long each stretch takes after the change."""
        return np.rint(self.at(end_ns) - self.at(start_ns)).astype(np.int64)


def clock_of(scales: Iterable[tuple[Rows, float]]) -> Clock:
    """The map for one track from pairs (intervals, factor); where several apply, the strongest one counts."""
    known = [(intervals, factor) for intervals, factor in scales if len(intervals)]
    edges = distinct(np.concatenate([intervals.ravel() for intervals, _ in known]).astype(np.int64))
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
    """Times after the change, and without what the profiler itself took of the host's time."""
    own, lag = graph.nodes.own_ns.copy(), graph.edges.lag_ns.copy()
    begun_ns, ended_ns = int(np.min(graph.nodes.begin_ns)), graph.recorded_end_ns
    tracks: dict[tuple[int, int], list[tuple[Rows, float]]] = {}
    for part in change:
        if isinstance(part, Scale):
            first = np.searchsorted(part.intervals[:, 1], begun_ns, side="right")
            inside = part.intervals[first : np.searchsorted(part.intervals[:, 0], ended_ns)]
            tracks.setdefault((part.rank, part.track), []).append((inside, part.factor))
        elif isinstance(part, Unblock):
            _unblock(profile, graph, part, lag)
    shares, clocks = np.ones(len(own)), dict[tuple[int, int], Clock]()
    for (rank, track), scales in tracks.items():
        if any(len(intervals) for intervals, _ in scales):
            clocks[rank, track] = clock_of(scales)
            _scale(graph, rank, track, clocks[rank, track], own, lag, shares)
    for thread, cost in recording_costs(profile).items():
        _unrecorded(graph, thread, cost, clocks.get(thread), own)
    for part in change:
        if isinstance(part, Omit):
            _omit(graph, part, own, lag)
    return Times(_transfers(graph, own, shares), lag)


def _scale(
    graph: Graph,
    rank: int,
    track: int,
    clock: Clock,
    own: Rows,
    lag: Rows,
    shares: NDArray[np.float64],
) -> None:
    parts = graph.tracks.get((rank, track))
    if parts is None:
        return
    nodes, edges, mine = graph.nodes, graph.edges, parts.nodes
    own[mine] = clock.lasting(nodes.end_ns[mine] - nodes.own_ns[mine], nodes.end_ns[mine])
    done = mine[nodes.collective[mine] >= 0]
    moved = nodes.begin_ns[nodes.collective[done]]
    whole = np.maximum(nodes.end_ns[done] - moved, 1)
    shares[done] = clock.lasting(moved, nodes.end_ns[done]) / whole
    after = edges.target[parts.gaps]
    end = nodes.end_ns[after] - nodes.own_ns[after]
    lag[parts.gaps] = clock.lasting(end - edges.lag_ns[parts.gaps], end)


def _unrecorded(graph: Graph, thread: tuple[int, int], cost: RecordingCost, clock: Clock | None, own: Rows) -> None:
    """Take from the thread's own times what recording took of what the change leaves of them."""
    nodes, parts = graph.nodes, graph.tracks.get(thread)
    if parts is None:
        return
    mine = parts.nodes
    begin_ns, end_ns = nodes.end_ns[mine] - nodes.own_ns[mine], nodes.end_ns[mine]
    if clock is None:
        taken_ns = cost.until(end_ns) - cost.until(begin_ns)
    else:
        taken_ns = clock.left_of(cost, end_ns) - clock.left_of(cost, begin_ns)
    own[mine] -= np.minimum(taken_ns, own[mine]).astype(np.int64)


def _transfers(graph: Graph, own: Rows, shares: NDArray[np.float64]) -> Rows:
    """A transfer is shared by its ranks: it becomes as fast as the change makes it on any of them."""
    done = np.flatnonzero(graph.nodes.kind == NodeKind.DONE)
    share = np.ones(len(own))
    np.minimum.at(share, graph.nodes.collective[done], shares[done])
    slower = np.ones(len(own))
    np.maximum.at(slower, graph.nodes.collective[done], shares[done])
    return np.where(graph.nodes.kind == NodeKind.TRANSFER, np.rint(own * share * slower), own).astype(np.int64)


def _unblock(profile: Profile, graph: Graph, part: Unblock, lag: Rows) -> None:
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


def _omit(graph: Graph, part: Omit, own: Rows, lag: Rows) -> None:
    """The rank passes these collectives at once: it waits for its own arrival only. ``own`` and ``lag`` are changed."""
    nodes, edges = graph.nodes, graph.edges
    mine = (nodes.rank == part.rank) & np.isin(nodes.row, part.rows)
    own[mine & (nodes.kind == NodeKind.DEVICE)] = 0
    passed = mine & (nodes.kind == NodeKind.DONE)
    lag[passed[edges.target] & (nodes.kind[edges.source] == NodeKind.TRANSFER)] = NEVER_NS


# The loop is sequential by nature. It runs over plain lists in an order found once, with at most two edges per place:
# a node with more edges takes several places.


@dataclass(frozen=True, eq=False)
class Following:
    """Places that depend on place ``p``: ``place[first[p]:first[p + 1]]``."""

    first: Rows
    place: Rows


@dataclass(frozen=True, eq=False)
class Program:
    """The order of replay. Place 0 is the origin; ``edge_a`` and ``edge_b`` index edges, -1 for none."""

    node: Rows  # node of each place
    final: Rows  # last place of each node
    edge_a: Rows
    edge_b: Rows
    source_a: list[int]  # places
    source_b: list[int]
    chained: NDArray[np.bool_]  # goes on from the place before, which belongs to the same node
    is_last: NDArray[np.bool_]  # the node's own time is spent here

    @cached_property
    def following(self) -> Following:
        """The places that depend on each place; sorted once, at the first partial replay."""
        count = len(self.node)
        second = np.flatnonzero(self.edge_b >= 0)
        source = np.concatenate((np.asarray(self.source_a[1:], dtype=np.int64), np.asarray(self.source_b)[second]))
        place = np.concatenate((np.arange(1, count), second))
        order = np.argsort(source, kind="stable")
        return Following(np.searchsorted(source[order], np.arange(count + 1)), place[order])


@dataclass(frozen=True, eq=False)
class Replay:
    """When every node ends, in ns on the run's time axis; shape (n,). ``place_end_ns`` is the same by place."""

    end_ns: Rows
    times: Times
    place_end_ns: list[int]

    @property
    def finish_ns(self) -> int:
        """The moment at which everything is done."""
        return int(self.end_ns.max())


def compile_program(edges: Edges, order: Rows) -> Program:
    """The program of a graph, used for every replay of it; ``edges`` by target, node 0 first in ``order``."""
    count = len(order)
    degree = np.bincount(edges.target, minlength=count)
    places = np.maximum(degree - 1, 1)[order]
    stop = np.cumsum(places)
    final = np.empty(count, dtype=np.int64)
    final[order] = stop - 1
    node = np.repeat(order, places)
    index = np.arange(len(node)) - np.repeat(stop - places, places)
    first = (np.cumsum(degree) - degree)[node]
    has_a, has_b = (index == 0) & (degree[node] > 0), degree[node] > index + 1
    edge_a = np.where(has_a, first, -1)
    edge_b = np.where(has_b, first + index + 1, -1)
    source = final[edges.source] if len(edges) else np.zeros(1, dtype=np.int64)
    chained = np.where(index > 0, np.arange(len(node)) - 1, 0)
    return Program(
        node,
        final,
        edge_a,
        edge_b,
        np.where(has_a, source[np.maximum(edge_a, 0)], chained).tolist(),
        np.where(has_b, source[np.maximum(edge_b, 0)], 0).tolist(),
        index > 0,
        index == places.repeat(places) - 1,
    )


def run_program(program: Program, times: Times, origin_ns: int = 0) -> Replay:
    """Play the graph with these own times and lags; the origin ends at ``origin_ns``."""
    ends = [origin_ns]
    _play(program, times, ends)
    return Replay(np.asarray(ends, dtype=np.int64)[program.final], times, ends)


def _play(program: Program, times: Times, ends: list[int]) -> None:
    """Append the ends of all places that ``ends`` does not hold yet."""
    begun = len(ends)
    lags = np.append(times.lag_ns, NEVER_NS)
    lag_a = np.where(program.chained[begun:], 0, lags[program.edge_a[begun:]]).tolist()
    lag_b = lags[program.edge_b[begun:]].tolist()
    own = np.where(program.is_last[begun:], times.own_ns[program.node[begun:]], 0).tolist()
    sources = (program.source_a[begun:], program.source_b[begun:])
    append = ends.append
    for source_a, extra_a, source_b, extra_b, spent in zip(sources[0], lag_a, sources[1], lag_b, own, strict=True):
        ready = ends[source_a] + extra_a
        other = ends[source_b] + extra_b
        append((other if other > ready else ready) + spent)


# Looking up what depends on a place costs several times what playing it in order does, so a change that moves more
# than this share of the places is played in order from there on.
LOCAL_SHARE = 0.05


def rerun(program: Program, before: Replay, times: Times) -> Replay:
    """The same as ``run_program`` with these times, played only where they move something since ``before``.

    Places are visited in the order of replay, so that all earlier ones are final; nothing follows a place whose end
    stays the same (dPRO's partial replay).
    """
    moved = _touched(program, before.times, times)
    if not len(moved):
        return Replay(before.end_ns, times, before.place_end_ns)
    most = int(LOCAL_SHARE * len(program.node))
    if len(moved) > most:
        ends = before.place_end_ns[: max(int(moved[0]), 1)]
        _play(program, times, ends)
        return Replay(np.asarray(ends, dtype=np.int64)[program.final], times, ends)
    ends = before.place_end_ns.copy()
    following, lags = program.following, np.append(times.lag_ns, NEVER_NS)
    waiting = moved.tolist()  # sorted, hence a heap
    last = 0  # the place handled last: each is handled once
    while waiting:
        place = heappop(waiting)
        if place == last:
            continue
        if most < 0:
            del ends[place:]
            _play(program, times, ends)
            break
        last, most = place, most - 1
        extra_a = 0 if program.chained[place] else int(lags[program.edge_a[place]])
        ready = ends[program.source_a[place]] + extra_a
        ready = max(ready, ends[program.source_b[place]] + int(lags[program.edge_b[place]]))
        end = ready + (int(times.own_ns[program.node[place]]) if program.is_last[place] else 0)
        if end == ends[place]:
            continue
        ends[place] = end
        for each in following.place[following.first[place] : following.first[place + 1]].tolist():
            heappush(waiting, each)
    return Replay(np.asarray(ends, dtype=np.int64)[program.final], times, ends)


def _touched(program: Program, before: Times, after: Times) -> Rows:
    """Places, in order, whose own time or an edge into which differs; the origin never does."""
    lag = np.append(before.lag_ns != after.lag_ns, False)
    own = before.own_ns != after.own_ns
    touched = lag[program.edge_a] | lag[program.edge_b] | (own[program.node] & program.is_last)
    touched[0] = False
    return np.flatnonzero(touched)
