"""The critical path, its host time divided into the innermost operators and calls, by family of work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import EMPTY, IntervalSet, complement, distinct, merge, subtract
from tools.run.events import EventKind
from tools.run.links import parents
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.whatif.build import graph_of
from tools.whatif.change import Change, Scale
from tools.whatif.graph import EdgeKind, Graph, NodeKind, binding_edges
from tools.whatif.operations import NONE, Rows
from tools.whatif.predict import saved_ms

FAMILIES = ("io", "cpu", "computation", "communication", "memory", "idle")
REMOVABLE = FAMILIES[:-1]  # idle time is launch latency and gaps: nothing that a change could take away runs in it


def device_family(rank: RankProfile, rows: Rows) -> NDArray[np.str_]:
    """Family of each device operation (or host collective)."""
    result = np.full(len(rows), "computation", dtype="<U13")
    result[rank.kind[rows] != EventKind.KERNEL] = "memory"
    moving = rank.named("communication_kernel") | rank.named("communication_span")
    result[moving[rows]] = "communication"
    return result


def host_families(rank: RankProfile, track: int) -> dict[str, IntervalSet]:
    """When a host thread is busy for io, memory and (without a device) computation; disjoint. The rest is cpu."""
    loader = _covered(rank, track, rank.loader_rows)
    calls = np.flatnonzero(rank.named("device_allocation") | rank.named("host_allocation"))
    memory = subtract(_covered(rank, track, calls), loader)
    computing = EMPTY if rank.rank.has_device else _covered(rank, track, rank.host_compute_rows)
    computation = subtract(subtract(computing, loader), memory)
    return {"io": loader, "memory": memory, "computation": computation}


def _covered(rank: RankProfile, track: int, rows: Rows) -> IntervalSet:
    mine = rows[rank.track[rows] == track]
    return rank.covered(mine)


def family_change(profile: Profile, family: str) -> Change:
    """The change that takes away all of a family's time, on the threads and streams of the dependency graph."""
    nodes = graph_of(profile).nodes
    parts: list[Scale] = []
    for number in graph_of(profile).window.ranks:
        rank = profile.rank(number)
        mine = nodes.rank == number
        for track in np.unique(nodes.track[mine & np.isin(nodes.kind, (NodeKind.HOST, NodeKind.WAIT))]):
            parts.append(Scale(number, int(track), _host_share(rank, int(track), family)))
        work = nodes.row[mine & np.isin(nodes.kind, (NodeKind.DEVICE, NodeKind.DONE))]
        chosen = work[device_family(rank, work) == family]
        for track in np.unique(rank.track[chosen]):
            parts.append(Scale(number, int(track), _covered(rank, int(track), chosen)))
    return tuple(part for part in parts if len(part.intervals))


def _host_share(rank: RankProfile, track: int, family: str) -> IntervalSet:
    shares = host_families(rank, track)
    if family == "cpu":
        start, end = rank.rank.window()
        return complement(merge(*shares.values()), start, end)
    return shares.get(family, EMPTY)


NAMED = (EventKind.OPERATOR, EventKind.RUNTIME)


def divided(rank: RankProfile, segments: pd.DataFrame, by_event: bool) -> pd.DataFrame:
    """The segments of one rank with host time divided by family, or ``by_event`` into innermost operators and calls."""
    host = segments["host"].to_numpy()
    parts = [segments[~host]]
    for track, mine in segments[host].groupby("track", sort=False):
        parts.append(_thread(rank, int(str(track)), mine, by_event))
    return pd.concat(parts, ignore_index=True)


def _thread(rank: RankProfile, track: int, mine: pd.DataFrame, by_event: bool) -> pd.DataFrame:
    start, end = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
    events = _events(rank, track, int(start.min()), int(end.max())) if by_event else np.empty(0, dtype=np.int64)
    families = host_families(rank, track)
    bounds = np.concatenate([rank.start[events], rank.end[events], *(part.ravel() for part in families.values())])
    cuts = distinct(np.concatenate((start, end, bounds[(bounds > start.min()) & (bounds < end.max())])))
    first, stop = np.searchsorted(cuts, start), np.searchsorted(cuts, end)
    count = stop - first
    which = np.repeat(np.arange(len(mine)), count)
    cell = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    table = mine.iloc[which].reset_index(drop=True)
    table["start_ns"], table["end_ns"] = cuts[cell], cuts[cell + 1]
    table["row"] = innermost(rank, events, cuts[cell])
    what = np.full(len(cell), "cpu", dtype="<U13")
    for family, intervals in families.items():
        place = np.searchsorted(intervals[:, 0], cuts[cell], side="right") - 1
        if len(intervals):
            what[(place >= 0) & (cuts[cell] < intervals[np.maximum(place, 0), 1])] = family
    table["what"] = what
    if table.empty:
        return table
    start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    begins = np.append(True, start[1:] != end[:-1])
    for name in ("row", "step", "what"):
        values = table[name].to_numpy()
        begins[1:] |= values[1:] != values[:-1]
    first = np.flatnonzero(begins)
    result = table.iloc[first].reset_index(drop=True)
    result["end_ns"] = end[np.append(first[1:] - 1, len(table) - 1)]
    return result


def _events(rank: RankProfile, track: int, start_ns: int, end_ns: int) -> Rows:
    rows = np.flatnonzero((rank.track == track) & (rank.start < end_ns) & (rank.end > start_ns))
    named = np.isin(rank.kind[rows], [int(kind) for kind in NAMED]) | np.isin(rows, rank.loader_rows)
    return rows[named & (rank.end[rows] > rank.start[rows])]


def innermost(rank: RankProfile, events: Rows, moments_ns: Rows) -> Rows:
    """The innermost of the events (one thread) that covers each moment, -1 where none does."""
    if not len(events):
        return np.full(len(moments_ns), NONE, dtype=np.int64)
    upward = np.append(parents(rank.start[events], rank.end[events]), NONE)
    place = np.searchsorted(rank.start[events], moments_ns, side="right") - 1
    ended = np.append(rank.end[events], np.iinfo(np.int64).max)
    for _ in range(len(events)):
        outside = ended[place] <= moments_ns
        if not outside.any():
            break
        place[outside] = upward[place[outside]]
    return np.append(events, NONE)[place]


# It is walked back from the node that ends last, each time to the one that let it start when it did. HTA walks the same
# chain over single host operators; here host time is first cut only where something depends on it, and is divided into
# the innermost operator or call afterwards.


COLUMNS = ["rank", "track", "step", "row", "start_ns", "end_ns", "what"]


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The path through the chosen steps.

    ``families`` has one row per stretch, ordered by start and without gaps or overlap inside a step: rank, track,
    step, row (-1 for none), start_ns, end_ns and what (a family). Steps are those of ``rank``, where the path ends.
    ``unexplained_ns`` is idle time of the device on the path for which no reason was recorded or inferred.
    """

    families: pd.DataFrame
    steps: tuple[int, ...]
    rank: int
    unexplained_ns: int
    divide: Callable[[bool], pd.DataFrame]

    @cached_property
    def segments(self) -> pd.DataFrame:
        """The same stretches, host time divided into its innermost operators and calls, with their rows."""
        return self.divide(True)

    def ms(self, rank: int | None = None) -> dict[str, float]:
        """Milliseconds per step on the path by family, of one rank's part of it if given."""
        mine = self.families if rank is None else self.families[self.families["rank"] == rank]
        lasting = (mine["end_ns"] - mine["start_ns"]).groupby(mine["what"]).sum()
        return {family: float(lasting.get(family, 0)) / 1e6 / len(self.steps) for family in FAMILIES}

    @property
    def unexplained_ms(self) -> float:
        """Unexplained idle time per step."""
        return self.unexplained_ns / 1e6 / len(self.steps)


@dataclass(frozen=True)
class FamilySaving:
    """What a family holds of the critical path, and what the step would lose if its work took no time."""

    family: str
    path_ms: float
    saving_ms: float | None  # None for idle time, which is nobody's work


@memoized
def critical_path(profile: Profile) -> CriticalPath:
    """The critical path of the run's representative steps; computed once per profile."""
    graph = graph_of(profile)
    path = walk(graph)
    ranks = graph.nodes.rank[path]
    rank = int(ranks[ranks >= 0][-1])
    steps = profile.rank(rank).steps
    steps = steps[steps["number"].isin(graph.window.steps)].reset_index(drop=True)
    steps["end_ns"] = np.minimum(steps["end_ns"], graph.window.end_ns[graph.window.ranks.index(rank)])
    segments = _in_steps(_segments(profile, graph, path), steps)

    def divide(by_event: bool) -> pd.DataFrame:
        parts = segments.groupby("rank", sort=False)
        whole = pd.concat([divided(profile.rank(int(str(n))), part, by_event) for n, part in parts], ignore_index=True)
        return whole.sort_values("start_ns", kind="stable", ignore_index=True)[COLUMNS]

    device = np.isin(graph.nodes.kind[path], (NodeKind.DEVICE, NodeKind.ARRIVAL))
    unexplained = int(graph.residual_ns[path][device].sum())
    return CriticalPath(divide(False), graph.window.steps, rank, unexplained, divide)


@memoized
def family_savings(profile: Profile) -> tuple[FamilySaving, ...]:
    """Time on the path and saving by replay for each family; computed once per profile."""
    return tuple(
        FamilySaving(each, ms, saved_ms(profile, family_change(profile, each)) if each in REMOVABLE else None)
        for each, ms in critical_path(profile).ms().items()
    )


def walk(graph: Graph) -> Rows:
    """Nodes of the critical path in order of time, without the origin."""
    binding = binding_edges(graph)
    source = np.where(binding >= 0, graph.edges.source[binding], 0).tolist()
    node = int(graph.nodes.end_ns.argmax())
    path = []
    while node:
        path.append(node)
        node = source[node]
    return np.array(path[::-1], dtype=np.int64)


def _segments(profile: Profile, graph: Graph, path: Rows) -> pd.DataFrame:
    """Every node of the path as the delay before it and its own time; host time is still "cpu"."""
    nodes, edges = graph.nodes, graph.edges
    edge = binding_edges(graph)[path]
    start = nodes.end_ns[path] - nodes.own_ns[path]
    known = np.maximum.accumulate(np.where(nodes.rank[path] >= 0, np.arange(len(path)), 0))
    placed = path[known]  # a transfer lies where the path arrives from
    delay = np.where(edges.kind[edge] == EdgeKind.COLLECTIVE, "communication", "idle")
    work = _families(profile, graph, path)
    table = pd.DataFrame(
        {
            "rank": np.repeat(nodes.rank[placed], 2),
            "track": np.repeat(nodes.track[placed], 2),
            "row": np.repeat(nodes.row[path], 2),
            "start_ns": np.column_stack((start - edges.lag_ns[edge], start)).ravel(),
            "end_ns": np.column_stack((start, nodes.end_ns[path])).ravel(),
            "what": np.column_stack((delay, work)).ravel(),
            "host": np.column_stack((np.zeros(len(path), dtype=bool), work == "cpu")).ravel(),
        }
    )
    return table[table["end_ns"] > table["start_ns"]]


def _families(profile: Profile, graph: Graph, path: Rows) -> NDArray[np.str_]:
    kind, rank, row = graph.nodes.kind[path], graph.nodes.rank[path], graph.nodes.row[path]
    result = np.full(len(path), "cpu", dtype="<U13")
    result[np.isin(kind, (NodeKind.TRANSFER, NodeKind.DONE, NodeKind.ARRIVAL))] = "communication"
    for number in np.unique(rank[rank >= 0]):
        mine = np.flatnonzero((rank == number) & (kind == NodeKind.DEVICE))
        result[mine] = device_family(profile.rank(int(number)), row[mine])
    return result


def _in_steps(segments: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """The segments cut at the steps' bounds, with the number of the step; what lies outside is left out."""
    start, end = segments["start_ns"].to_numpy(), segments["end_ns"].to_numpy()
    begin, finish = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    first = np.searchsorted(finish, start, side="right")
    count = np.maximum(np.searchsorted(begin, end, side="left") - first, 0)
    which = np.repeat(np.arange(len(segments)), count)
    step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    cut = segments.iloc[which].reset_index(drop=True)
    cut["start_ns"] = np.maximum(start[which], begin[step])
    cut["end_ns"] = np.minimum(end[which], finish[step])
    cut["step"] = steps["number"].to_numpy()[step]
    return cut
