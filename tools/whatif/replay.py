"""Replays the graph: every node starts when all that it waits for has happened (dPRO, MLSys'22, section 4.3).

The loop is sequential by nature. It runs over plain lists in an order found once, with at most two edges per place:
a node with more edges takes several places.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.whatif.graph import Graph, Numbers
from tools.whatif.scaling import NEVER_NS, Times


@dataclass(frozen=True, eq=False)
class Program:
    """The order of replay. Place 0 is the origin; ``edge_a`` and ``edge_b`` index edges, -1 for none."""

    node: Numbers  # node of each place
    final: Numbers  # last place of each node
    edge_a: Numbers
    edge_b: Numbers
    source_a: list[int]  # places
    source_b: list[int]
    is_last: np.ndarray[tuple[int], np.dtype[np.bool_]]  # the node's own time is spent here


@dataclass(frozen=True, eq=False)
class Replay:
    """When every node ends, in ns on the run's time axis; shape (n,)."""

    end_ns: Numbers

    @property
    def finish_ns(self) -> int:
        """The moment at which everything is done."""
        return int(self.end_ns.max())


def compile_program(graph: Graph) -> Program:
    """The program of a graph; used for every replay of it."""
    count = len(graph.nodes)
    degree = np.bincount(graph.edges.target, minlength=count)
    places = np.maximum(degree - 1, 1)[graph.order]
    stop = np.cumsum(places)
    final = np.empty(count, dtype=np.int64)
    final[graph.order] = stop - 1
    node = np.repeat(graph.order, places)
    index = np.arange(len(node)) - np.repeat(stop - places, places)
    first = (np.cumsum(degree) - degree)[node]
    has_a, has_b = (index == 0) & (degree[node] > 0), degree[node] > index + 1
    edge_a = np.where(has_a, first, -1)
    edge_b = np.where(has_b, first + index + 1, -1)
    source = final[graph.edges.source] if len(graph.edges) else np.zeros(1, dtype=np.int64)
    chained = np.where(index > 0, np.arange(len(node)) - 1, 0)
    return Program(
        node,
        final,
        edge_a,
        edge_b,
        np.where(has_a, source[np.maximum(edge_a, 0)], chained).tolist(),
        np.where(has_b, source[np.maximum(edge_b, 0)], 0).tolist(),
        index == places.repeat(places) - 1,
    )


def run_program(graph: Graph, program: Program, times: Times) -> Replay:
    """Plays the graph with these own times and lags."""
    lags = np.append(times.lag_ns, NEVER_NS)
    chained = (program.edge_a < 0) & (np.asarray(program.source_a) > 0)
    lag_a = np.where(chained, 0, lags[program.edge_a]).tolist()
    lag_b = lags[program.edge_b].tolist()
    own = np.where(program.is_last, times.own_ns[program.node], 0).tolist()
    ends = [graph.window.origin_ns]
    append = ends.append
    following = zip(program.source_a, lag_a, program.source_b, lag_b, own, strict=True)
    next(following)
    for source_a, extra_a, source_b, extra_b, spent in following:
        ready = ends[source_a] + extra_a
        other = ends[source_b] + extra_b
        append((other if other > ready else ready) + spent)
    return Replay(np.asarray(ends, dtype=np.int64)[program.final])
