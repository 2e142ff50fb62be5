"""Delays before nodes of CUDA graphs, as the other steps of the run had them.

A CUDA graph is launched as a whole, so the host has no part in when its nodes start. Where a trace shows a node start
long after all that it is known to wait for, the device runs nodes of the graph that were not recorded. Their time is
not known from the step itself; what the same node waited for in the other steps predicts it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tools.run.events import DEVICE_WORK, name_mask
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.graph import Graph
from tools.whatif.operations import Rows

GRAPH_LAUNCH = re.compile(r"^(cuda|cu|hip)GraphLaunch")
FEWEST_OTHERS = 2  # steps, for a mean

Key = tuple[int, int, int, int]  # rank, track, name, and which one from the end of the window


def other_steps_delays(profile: Profile, graphs: Sequence[Graph]) -> list[Rows]:
    """Per step and node: the mean delay before the same node of a CUDA graph in the other steps, 0 for all others."""
    of_graphs = {view.rank.rank: launched_by_graphs(view) for view in profile.ranks}
    keys = [_keys(profile, graph, of_graphs) for graph in graphs]
    delays = defaultdict[Key, dict[int, int]](dict)
    for step, (graph, own) in enumerate(zip(graphs, keys, strict=True)):
        for node, key in own.items():
            delays[key][step] = int(graph.residual_ns[node])
    results = [np.zeros(len(graph.nodes), dtype=np.int64) for graph in graphs]
    for step, own in enumerate(keys):
        for node, key in own.items():
            others = [delay for number, delay in delays[key].items() if number != step]
            if len(others) >= FEWEST_OTHERS:
                results[step][node] = round(float(np.mean(others)))
    return results


def launched_by_graphs(view: RankProfile) -> NDArray[np.bool_]:
    """For each event, whether it is device work of a CUDA graph.

    Its call says so; where the call was not recorded, it has launched several.
    """
    calls = name_mask(view.events.frame["name"], GRAPH_LAUNCH.search)
    result = np.zeros(len(view.start), dtype=bool)
    if not calls.any():
        return result
    work = np.flatnonzero(np.isin(view.kind, [int(kind) for kind in DEVICE_WORK]))
    correlation = view.events.frame["correlation"].to_numpy()[work]
    _, inverse, counts = np.unique(correlation, return_inverse=True, return_counts=True)
    links = view.launches
    launched = links["device_row"].to_numpy()
    result[work] = (counts[inverse] > 1) & (correlation >= 0)
    result[launched] = calls[links["launch_row"].to_numpy()]
    return result


def _keys(profile: Profile, graph: Graph, of_graphs: dict[int, NDArray[np.bool_]]) -> dict[int, Key]:
    """The nodes of CUDA graphs, from the last one of the window on: the first may lack what was launched before."""
    nodes, seen, found = graph.nodes, Counter[tuple[int, int, int]](), dict[int, Key]()
    for node in np.flatnonzero(nodes.row >= 0)[::-1].tolist():
        rank, track, row = (int(part[node]) for part in (nodes.rank, nodes.track, nodes.row))
        if of_graphs[rank][row]:
            kind = rank, track, int(profile.rank(rank).codes[row])
            seen[kind] += 1
            found[node] = (*kind, seen[kind])
    return found
