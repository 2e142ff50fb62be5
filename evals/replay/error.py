"""How far the replay of an unchanged run is from the steps that were measured.

A graph fitted to a record ends when the record does: delays that no dependency explains are kept as lags, so the replay
with them shows nothing. Two replays do without what they are compared with:

* ``explained``: each step with its own times, without the delays that no dependency explains; before nodes of CUDA
  graphs, which run nodes that the trace may lack, with the delays of the other steps (``graph_delays``);
* ``mean times``: every node takes the mean of its time and delay over the steps with the same nodes (kind, rank, track
  and name in the same order), against the mean of these steps. This is dPRO's comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.replay.graph_delays import other_steps_delays
from tools.views.profile import Profile
from tools.whatif.build import build
from tools.whatif.critical_path import walk
from tools.whatif.graph import Graph, NodeKind, binding_edges
from tools.whatif.operations import Rows
from tools.whatif.replay import Times, compile_program, run_program
from tools.whatif.window import single_steps

FEWEST_ALIKE = 3  # steps, for a mean
MOST_STEPS = 50  # of one run, the first ones


@dataclass(frozen=True)
class RunError:
    """Errors of one run, signed: negative where the replay is shorter than the measured step."""

    nodes: int  # of a step, mean
    host_pct: float  # of the critical path, spent by host threads on their own
    explained_pct: tuple[float, ...]  # of each step
    graphs_pct: float  # of the step: what the replay is shorter without the delays before nodes of CUDA graphs
    mean_times_pct: float | None  # None where fewer than ``FEWEST_ALIKE`` steps have the same nodes


def run_error(profile: Profile) -> RunError:
    """Both errors of a run; raises HermesError where it has no steps or no host threads."""
    graphs = [build(profile, window) for window in single_steps(profile)[:MOST_STEPS]]
    delays = other_steps_delays(profile, graphs)
    steps = list(zip(graphs, delays, strict=True))
    finished = [finish_ns(graph, explained(graph, delay)) for graph, delay in steps]
    bare = [
        finish_ns(graph, explained(graph)) if delay.any() else end
        for (graph, delay), end in zip(steps, finished, strict=True)
    ]
    return RunError(
        nodes=round(float(np.mean([len(graph.nodes) for graph in graphs]))),
        host_pct=float(np.mean([host_pct(graph) for graph in graphs])),
        explained_pct=tuple(
            100.0 * (end / lasted_ns(graph) - 1.0) for graph, end in zip(graphs, finished, strict=True)
        ),
        graphs_pct=100.0 * (1.0 - sum(bare) / max(sum(finished), 1)),
        mean_times_pct=_mean_times_pct(profile, graphs),
    )


def explained(graph: Graph, expected_ns: Rows | None = None) -> Times:
    """Recorded times with the expected delay of each node in place of those that no dependency explains."""
    lag = graph.edges.lag_ns.copy()
    removed = np.maximum(graph.residual_ns, 0)
    if expected_ns is not None:
        removed = removed - expected_ns
    delayed = np.flatnonzero(removed)
    lag[binding_edges(graph)[delayed]] -= removed[delayed]
    return Times(graph.nodes.own_ns, lag)


def host_pct(graph: Graph) -> float:
    """Share of the step that host threads spend on the critical path without waiting for anything known."""
    nodes, path = graph.nodes, walk(graph)
    return 100.0 * float(nodes.own_ns[path[nodes.kind[path] == NodeKind.HOST]].sum()) / lasted_ns(graph)


def _mean_times_pct(profile: Profile, graphs: Sequence[Graph]) -> float | None:
    described = [signature(profile, graph) for graph in graphs]
    frequent, count = Counter(described).most_common(1)[0]
    if count < FEWEST_ALIKE:
        return None
    alike = [graph for graph, nodes in zip(graphs, described, strict=True) if nodes == frequent]
    taken = np.mean([graph.nodes.own_ns + graph.residual_ns for graph in alike], axis=0)
    times = np.rint(taken).astype(np.int64)
    replayed = np.mean([finish_ns(graph, Times(times, explained(graph).lag_ns)) for graph in alike])
    return float(100.0 * (replayed / np.mean([lasted_ns(graph) for graph in alike]) - 1.0))


def signature(profile: Profile, graph: Graph) -> bytes:
    """Equal for steps with the same nodes in the same order."""
    nodes = graph.nodes
    name = np.full(len(nodes), -1, dtype=np.int64)
    for number in graph.window.ranks:
        codes: Rows = profile.rank(number).events.frame["name"].cat.codes.to_numpy().astype(np.int64)
        mine = np.flatnonzero((nodes.rank == number) & (nodes.row >= 0))
        name[mine] = codes[nodes.row[mine]]
    return np.stack((nodes.kind.astype(np.int64), nodes.rank, nodes.track, name)).tobytes()


def finish_ns(graph: Graph, times: Times) -> int:
    """Duration of the replay from the start of the window."""
    origin_ns = graph.window.origin_ns
    return run_program(compile_program(graph.edges, graph.order), times, origin_ns).finish_ns - origin_ns


def lasted_ns(graph: Graph) -> int:
    """Measured duration of the window, at least 1 ns."""
    return max(graph.recorded_end_ns - graph.window.origin_ns, 1)
