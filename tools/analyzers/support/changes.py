"""The change that makes chosen events shorter."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, length, union
from tools.views.collectives import collectives
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Change, Scale


def shortened(view: RankProfile, rows: NDArray[np.int64], factor: float, kept_factor: float) -> tuple[Scale, ...]:
    """These events of a rank take ``factor`` times as long, or cautiously ``kept_factor`` times; by track."""
    return tuple(
        Scale(
            rank=view.rank.rank,
            track=int(track),
            intervals=union(view.start[rows[view.track[rows] == track]], view.end[rows[view.track[rows] == track]]),
            factor=factor,
            kept_factor=kept_factor,
        )
        for track in np.unique(view.track[rows])
    )


def shortened_on(
    profile: Profile,
    ranks: Iterable[int],
    rows: Callable[[RankProfile], NDArray[np.int64]],
    left: float,
    kept_left: float | None = None,
) -> Change:
    """These events of each rank keep ``left`` of their time, cautiously ``kept_left`` (half of the gain by default)."""
    kept = (1.0 + left) / 2 if kept_left is None else kept_left
    views = (profile.rank(rank) for rank in ranks)
    return tuple(scale for view in views for scale in shortened(view, rows(view), left, kept))


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
    result: list[Scale] = []
    for rank in profile.ranks:
        rows = table["row"].to_numpy()[(table["rank"] == rank.rank.rank).to_numpy()]
        result.extend(shortened(rank, rows, factor, 0.5 * (1.0 + factor)))
    return tuple(result)


def hidden(view: RankProfile, rows: NDArray[np.int64], moments: IntervalSet, hidden_ms: float) -> Change:
    """Of these collectives ``hidden_ms`` per step no longer show within the moments in which they now do."""
    shown_ms = _within(view, rows, moments)[1] / 1e6 / max(len(view.rank.steps), 1)
    if shown_ms <= 0.0 or hidden_ms <= 0.0:
        return ()
    factor = 1.0 - min(hidden_ms / shown_ms, 1.0)
    tracks = view.track[rows]
    by_track = {int(track): _within(view, rows[tracks == track], moments) for track in np.unique(tracks)}
    return tuple(
        Scale(view.rank.rank, track, intervals, factor, 0.5 * (1.0 + factor))
        for track, (intervals, shown_ns) in by_track.items()
        if shown_ns
    )


def _within(view: RankProfile, rows: NDArray[np.int64], moments: IntervalSet) -> tuple[IntervalSet, int]:
    """When these events are under way within the moments, and for how long."""
    intervals = intersect(moments, union(view.start[rows], view.end[rows]))
    return intervals, length(intervals)
