"""Host operators that last a whole number of the scheduler's ticks, whatever they compute: their threads take turns.

The threads of one operator meet several times while it runs. Where one of them shares its core with a program that
never sleeps, each meeting lasts until the scheduler changes the two at its next tick. So operators of very different
work last 16, 64 and 72 ms, to a tenth of a millisecond. Nothing that an operator itself does takes such times.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.views.profile import Profile, memoized
from tools.views.work import own_ns

TICKS_MS = (10.0, 4.0, 10.0 / 3.0)  # of kernels with 100, 250 (the default) and 300 ticks a second; 1 ms shows nothing
LEAST_TICKS = 1.5  # a shorter call is no multiple
NEAR = 0.125  # of a tick to the next multiple: a quarter of all calls by chance
MOSTLY = 0.7  # of the calls must be so near
LEAST_CALLS, LEAST_KINDS, LEAST_MULTIPLES = 30, 5, 3  # by chance less than one recording in a million; no one operator

ON_TICKS = ("operators last whole ticks of the scheduler, whatever they compute", "the same steps on idle cores")


@memoized
def on_ticks(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Rows of the rank's host operators that last a multiple of the scheduler's tick; none where it is not its rhythm.

    Judged on an operator's own time, of operators outside communication, on ranks without a device.
    """
    view = profile.rank(rank)
    rows = view.in_steps(view.host_compute_rows)
    rows = rows[~view.named("enclosing_operator")[rows]]
    if view.rank.has_device or len(rows) < LEAST_CALLS:
        return rows[:0]
    rows = rows[np.argsort(view.start[rows], kind="stable")]
    own_ms = own_ns(view.track[rows], view.start[rows], view.end[rows]) / 1e6
    for tick_ms in TICKS_MS:
        long = own_ms >= LEAST_TICKS * tick_ms
        multiple = np.round(own_ms / tick_ms)
        near = long & (np.abs(own_ms / tick_ms - multiple) <= NEAR)
        if near.sum() < max(LEAST_CALLS, MOSTLY * long.sum()):
            continue
        found = rows[near]
        if len(pd.unique(view.codes[found])) >= LEAST_KINDS and len(np.unique(multiple[near])) >= LEAST_MULTIPLES:
            return found
    return rows[:0]


def takes_turns(profile: Profile) -> bool:
    """Whether the durations of some rank's operators are the scheduler's, so that they say nothing of their work."""
    return any(len(on_ticks(profile, rank)) for rank in profile.run.rank_numbers)
