"""Where a training thread runs the forward again inside the backward, as activation checkpointing does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.intervals import EMPTY, IntervalSet, union
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile


def recomputed(profile: Profile, rank: int) -> dict[int, IntervalSet]:
    """By host thread, the stretches inside steps that recompute.

    Such a stretch begins with the first operator of a forward inside a node of the backward, and lasts until the node
    does what it is there for (an operator named ``..._backward``, or a node of a backward of its own) or ends.
    """
    return profile.memo(f"recomputed:{rank}", lambda: _recomputed(profile.rank(rank)))


def recomputed_kernels(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Rows of device work launched in these stretches."""
    view = profile.rank(rank)
    links = view.launches
    called = links["call_start_ns"].to_numpy()
    inside = np.zeros(len(links), dtype=bool)
    for track, moments in recomputed(profile, rank).items():
        place = np.searchsorted(moments[:, 0], called, side="right") - 1
        within = (place >= 0) & (called < moments[np.maximum(place, 0), 1])
        inside |= within & (links["host_track"].to_numpy() == track)
    return np.sort(links["device_row"].to_numpy()[inside])


def _recomputed(view: RankProfile) -> dict[int, IntervalSet]:
    forward = view.in_steps(np.flatnonzero(view.named("forward_operator")))
    found = {
        int(track): _stretches(view, forward[view.track[forward] == track], int(track))
        for track in np.unique(view.track[forward])
    }
    return {track: moments for track, moments in found.items() if len(moments)}


def _stretches(view: RankProfile, forward: NDArray[np.int64], track: int) -> IntervalSet:
    nodes = view.in_steps(np.flatnonzero(view.named("backward_node") & (view.track == track)))
    if not len(nodes):
        return EMPTY
    at = np.searchsorted(view.start[forward], view.start[nodes], side="left")
    begin = np.append(view.start[forward], np.iinfo(np.int64).max)[at]
    holding = begin < view.end[nodes]
    begin, last = begin[holding], view.end[nodes[holding]]
    marks = np.flatnonzero(view.named("backward_work") & (view.track == track))
    after = np.searchsorted(view.start[marks], begin, side="right")
    until = np.append(view.start[marks], np.iinfo(np.int64).max)[after]
    return union(begin, np.minimum(until, last))
