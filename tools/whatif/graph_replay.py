"""Replay of a graph from JSON: makespan, longest path, and how busy every resource is."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from heapq import heapify, heappop, heappush

import numpy as np

from tools.errors import UsageError
from tools.whatif.graph import ORIGIN, EdgeKind, Edges, link
from tools.whatif.graph_json import GraphInput
from tools.whatif.operations import Rows
from tools.whatif.replay import Times, compile_program, run_program
from tools.whatif.timeline import Bar

MOST_NS = 1 << 62
LONGEST_CYCLE = 8  # nodes of it that are named


@dataclass(frozen=True)
class PathNode:
    """One operator of the longest path."""

    id: str
    name: str
    resource: str
    kind: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class GraphReplay:
    """The replay of a graph; times in ms from its start, by simulation.

    ``path_ms`` holds the longest path's time by kind of node, and ``lag`` where it waits for the lag of an edge; their
    sum is the makespan. ``busy_ms`` is the time of each resource, the busiest first.
    """

    makespan_ms: float
    path: tuple[PathNode, ...]
    path_ms: dict[str, float]
    busy_ms: dict[str, float]
    own_ns: Rows = field(compare=False, repr=False)
    end_ns: Rows = field(compare=False, repr=False)

    def bars(self, given: GraphInput, group: str = "") -> list[Bar]:
        """Every operator that takes time, on the lane of its resource, or of its kind where it has none."""
        timed = zip(given.nodes, (self.own_ns[1:] / 1e6).tolist(), (self.end_ns[1:] / 1e6).tolist(), strict=True)
        return [
            Bar(one.resource or one.kind, one.name or one.id, one.kind, end - own, end, group)
            for one, own, end in timed
            if own > 0
        ]


def replay_graph(given: GraphInput, scales: Sequence[tuple[str, float]] = ()) -> GraphReplay:
    """The replay with the durations of nodes multiplied by each factor whose name pattern they match.

    UsageError where the graph has a cycle, where a pattern matches nothing, or where times do not fit.
    """
    own = _durations(given, scales)
    edges = _edges(given)
    if own.astype(np.float64).sum() + edges.lag_ns.astype(np.float64).sum() > MOST_NS:
        raise UsageError("durations and lags add up to more than 146 years; check the unit of duration_ms and lag_ms")
    resources = [""] + [node.resource for node in given.nodes] if given.order == "queues" else [""] * len(own)
    order, queued = _played(own, edges, resources)
    if len(order) < len(own):
        raise UsageError(_cycle(given, edges, set(order.tolist())))
    edges = edges.joined(queued)
    edges = edges.taken(np.argsort(edges.target, kind="stable"))
    end = run_program(compile_program(edges, order), Times(own, edges.lag_ns)).end_ns
    return _described(given, edges, own, end)


def _durations(given: GraphInput, scales: Sequence[tuple[str, float]]) -> Rows:
    """Own times in ns with the origin first; names are compared once each."""
    own_ms = np.array([0.0] + [node.duration_ms for node in given.nodes])
    places = defaultdict(list)
    for place, node in enumerate(given.nodes, 1):
        places[node.name].append(place)
    for pattern, factor in scales:
        matching = [name for name in places if fnmatchcase(name, pattern)]
        if not matching:
            near = difflib.get_close_matches(pattern, [name for name in places if name][:10_000], n=1, cutoff=0.0)
            raise UsageError(
                f"no node has the name {pattern!r}" + (f"; the nearest one is {near[0]!r}" if near else "")
            )
        for name in matching:
            own_ms[places[name]] *= factor
    return np.rint(np.minimum(own_ms * 1e6, float(MOST_NS))).astype(np.int64)


def _edges(given: GraphInput) -> Edges:
    """The edges; nodes without any start at the origin."""
    at = {node.id: place for place, node in enumerate(given.nodes, 1)}
    source = np.array([at[edge.source] for edge in given.edges], dtype=np.int64)
    target = np.array([at[edge.target] for edge in given.edges], dtype=np.int64)
    lag = np.rint(np.array([edge.lag_ms for edge in given.edges], dtype=np.float64) * 1e6).astype(np.int64)
    first = np.setdiff1d(np.arange(1, len(given.nodes) + 1), target)
    return link(source, target, EdgeKind.THREAD, lag).joined(link(np.full(len(first), ORIGIN), first, EdgeKind.FIXED))


def _played(own: Rows, edges: Edges, resources: Sequence[str]) -> tuple[Rows, Edges]:
    """Nodes in the order in which they become ready, and the edges from each to the next of its resource (dPRO).

    All times are positive, so whatever becomes ready later is taken later: one heap does for all queues.
    """
    by_source = np.argsort(edges.source, kind="stable")
    first = np.searchsorted(edges.source[by_source], np.arange(len(own) + 1)).tolist()
    target, lag = edges.target[by_source].tolist(), edges.lag_ns[by_source].tolist()
    missing = np.bincount(edges.target, minlength=len(own)).tolist()
    ready = [0] * len(own)
    waiting = [(0, node) for node, count in enumerate(missing) if not count]
    heapify(waiting)
    lasting, free, latest = own.tolist(), dict[str, int](), dict[str, int]()
    order, before, after = [], [], []
    while waiting:
        begin, node = heappop(waiting)
        order.append(node)
        if resource := resources[node]:
            begin = max(begin, free.get(resource, 0))
            if resource in latest:
                before.append(latest[resource])
                after.append(node)
            latest[resource], free[resource] = node, begin + lasting[node]
        end = begin + lasting[node]
        for edge in range(first[node], first[node + 1]):
            each = target[edge]
            ready[each] = max(ready[each], end + lag[edge])
            missing[each] -= 1
            if not missing[each]:
                heappush(waiting, (ready[each], each))
    queued = link(np.array(before, dtype=np.int64), np.array(after, dtype=np.int64), EdgeKind.STREAM)
    return np.array(order, dtype=np.int64), queued


def _cycle(given: GraphInput, edges: Edges, played: set[int]) -> str:
    """A sentence with one cycle among the nodes that never became ready."""
    before: dict[int, int] = {}
    for source, target in zip(edges.source.tolist(), edges.target.tolist(), strict=True):
        if source not in played and target not in played:
            before[target] = source
    node, seen = next(iter(before)), dict[int, int]()
    while node not in seen:
        seen[node] = len(seen)
        node = before[node]
    cycle = [given.nodes[each - 1].id for each, place in seen.items() if place >= seen[node]][::-1]
    shown = cycle[:LONGEST_CYCLE]
    more = f" -> ... ({len(cycle)} nodes)" if len(cycle) > LONGEST_CYCLE else f" -> {cycle[0]}"
    return f"the graph has a cycle: {' -> '.join(shown)}{more}; remove one of its edges"


def _described(given: GraphInput, edges: Edges, own: Rows, end: Rows) -> GraphReplay:
    slack = (end - own)[edges.target] - end[edges.source] - edges.lag_ns
    binding = np.full(len(own), -1, dtype=np.int64)
    tight = np.flatnonzero(slack == 0)
    binding[edges.target[tight]] = tight
    node, path, by_kind = int(end.argmax()), list[PathNode](), defaultdict[str, int](int)
    while node != ORIGIN:
        one = given.nodes[node - 1]
        path.append(
            PathNode(
                one.id, one.name, one.resource, one.kind, float(end[node] - own[node]) / 1e6, float(end[node]) / 1e6
            )
        )
        by_kind[one.kind] += int(own[node])
        by_kind["lag"] += int(edges.lag_ns[binding[node]])
        node = int(edges.source[binding[node]])
    busy = defaultdict[str, int](int)
    for one, lasted in zip(given.nodes, own[1:].tolist(), strict=True):
        if one.resource:
            busy[one.resource] += lasted
    return GraphReplay(
        makespan_ms=float(end.max()) / 1e6,
        path=tuple(path[::-1]),
        path_ms={kind: taken / 1e6 for kind, taken in by_kind.items() if taken},
        busy_ms={name: taken / 1e6 for name, taken in sorted(busy.items(), key=lambda item: (-item[1], item[0]))},
        own_ns=own,
        end_ns=end,
    )
