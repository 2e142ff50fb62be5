"""What forward operators spend on noting where they were called, as autograd's anomaly detection has them do.

Every operator that puts a node into autograd's graph formats the Python stack; nothing in the trace tells the moment.
But an operator that only makes a view of a tensor does nothing else, so what it takes is what noting takes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet, union
from tools.profilers.rank_profile import RankProfile

SEVERAL = 5  # views, fewer of which tell no usual time


def noting_spans(rank: RankProfile, track: int) -> IntervalSet:
    """The ends of the forward operators of a thread, as long as noting takes; empty where no views tell that."""
    rows = _with_node(rank, track)
    views = rows[rank.named("view_operator")[rows]]
    if len(views) < SEVERAL:
        return union(rank.start[:0], rank.end[:0])
    usual_ns = int(np.median(rank.end[views] - rank.start[views]))
    return union(np.maximum(rank.start[rows], rank.end[rows] - usual_ns), rank.end[rows])


def _with_node(rank: RankProfile, track: int) -> NDArray[np.int64]:
    """The operators that made a node each: of those with one sequence number the last one called.

    The number is that of the next node to be made, so operators around that one and those that make none share it.
    """
    table = rank.events.details.operators
    rows = table["row"].to_numpy()[((table["sequence"] >= 0) & (table["forward_thread"] <= 0)).to_numpy()]
    known = dict(zip(table["row"], table["sequence"], strict=True))
    rows = rank.in_steps(np.sort(rows[rank.track[rows] == track]))
    last = {known[row]: row for row in rows[np.argsort(rank.start[rows], kind="stable")]}
    return np.array(sorted(last.values()), dtype=np.int64)
