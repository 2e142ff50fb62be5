"""Which family of causes a moment of a host thread or a device operation belongs to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.intervals import EMPTY, IntervalSet, complement, merge, subtract
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.build import graph_of
from tools.whatif.change import Change, Scale
from tools.whatif.graph import NodeKind
from tools.whatif.operations import Rows

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
