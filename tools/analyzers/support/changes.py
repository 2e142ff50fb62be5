"""The change that makes chosen events shorter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, length, union
from tools.views.collectives import collectives
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Change, Scale


def shortened(
    view: RankProfile, rows: NDArray[np.int64], left: float, cautious: float | None = None
) -> tuple[Scale, ...]:
    """These events of a rank keep ``left`` of their time, cautiously ``cautious`` (half of the gain by default)."""
    kept = 0.5 * (1.0 + left) if cautious is None else cautious
    by_track = ((int(track), rows[view.track[rows] == track]) for track in np.unique(view.track[rows]))
    return tuple(
        Scale(view.rank.rank, track, union(view.start[mine], view.end[mine]), left, kept) for track, mine in by_track
    )


def shortened_on(
    profile: Profile,
    ranks: Iterable[int],
    rows: Callable[[RankProfile], NDArray[np.int64]],
    left: float,
    cautious: float | None = None,
) -> Change:
    """The same of chosen events of several ranks."""
    views = (profile.rank(rank) for rank in ranks)
    return tuple(scale for view in views for scale in shortened(view, rows(view), left, cautious))


def scaled(
    profile: Profile,
    kind: str | None,
    factor: float,
    least_bytes: int = 0,
    longest_us: float = float("inf"),
    group: str | None = None,
) -> Change:
    """The chosen collectives take ``factor`` times as long on every rank."""
    table = collectives(profile)
    chosen = table["bytes"] >= least_bytes if least_bytes else table["step"] >= 0
    chosen &= (table["end_ns"] - table["start_ns"]) / 1e3 <= longest_us
    if kind is not None:
        chosen &= table["kind"] == kind
    if group is not None:
        chosen &= table["group"] == group
    table = table[chosen]
    rows = table["row"].to_numpy()
    ranks = [view.rank.rank for view in profile.ranks]
    return shortened_on(profile, ranks, lambda view: rows[(table["rank"] == view.rank.rank).to_numpy()], factor)


def hidden(view: RankProfile, rows: NDArray[np.int64], moments: IntervalSet, hidden_ms: float) -> Change:
    """Of these collectives ``hidden_ms`` per step no longer show within the moments in which they now do."""
    shown = intersect(moments, union(view.start[rows], view.end[rows]))
    shown_ms = length(shown) / 1e6 / max(len(view.rank.steps), 1)
    if shown_ms <= 0.0 or hidden_ms <= 0.0:
        return ()
    left = 1.0 - min(hidden_ms / shown_ms, 1.0)
    scales = (replace(each, intervals=intersect(moments, each.intervals)) for each in shortened(view, rows, left))
    return tuple(scale for scale in scales if length(scale.intervals))
