"""The change that makes chosen events shorter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.intervals import union
from tools.profilers.rank_profile import RankProfile
from tools.whatif.change import Scale


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
