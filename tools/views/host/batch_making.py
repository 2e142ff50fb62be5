"""Python code that makes a batch: tensors are made of its values right after it, and a forward pass takes them.

``torch.tensor()`` and ``torch.from_numpy()`` are the operators that make a tensor of Python's or NumPy's values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet
from tools.run.events import EventKind
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

Rows = NDArray[np.int64]
WITHIN = 4  # operators after the code: a batch has an index or a few tensors of other kinds next to its first
HALF = 0.5
FAR = np.iinfo(np.int64).max


@memoized
def _operators(profile: Profile, rank: int) -> Rows:
    """The outermost operators of the training threads in order of time."""
    view = profile.rank(rank)
    rows = view.outermost(np.flatnonzero((view.kind == EventKind.OPERATOR) & view.on_training_thread))
    return rows[np.argsort(view.start[rows], kind="stable")]


def makes_batch(profile: Profile, rank: int, moments: IntervalSet) -> bool:
    """Whether a batch is made in most of the time of these moments, which are stretches of one kind of Python code.

    Tensors are made of Python's values inside each or directly after it; a forward pass follows before any backward
    pass or optimizer, and after no longer pause than half of the stretch: else something else came in between.
    """
    view, rows = profile.rank(rank), _operators(profile, rank)
    begin, end = moments[:, 0], moments[:, 1]
    if not len(moments) or not len(rows):
        return False
    made = _next(view.start[rows[view.named("made_of_values")[rows]]], begin)
    behind = np.minimum(np.searchsorted(view.start[rows], end, side="left") + WITHIN, len(rows)) - 1
    forward = _next(_forward(view, rows), end)
    training = np.flatnonzero(view.named("backward_node") | view.named("optimizer_update"))
    chosen = (made <= np.maximum(view.start[rows[behind]], end)) & (made <= forward)
    chosen &= forward < _next(np.sort(view.start[training]), end)
    chosen &= _longest_pause(view, rows, end, forward) <= HALF * (end - begin)
    lasting = (end - begin).astype(np.float64)
    return float(lasting[chosen].sum()) >= HALF * float(lasting.sum())


def _forward(view: RankProfile, rows: Rows) -> NDArray[np.int64]:
    return view.start[rows[(view.named("forward_operator") | view.named("matrix_operator"))[rows]]]


def _next(starts: NDArray[np.int64], moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each moment the first of the ascending starts that is not before it, far away where there is none."""
    found: NDArray[np.int64] = np.append(starts, FAR)[np.searchsorted(starts, moments, side="left")]
    return found


def _longest_pause(view: RankProfile, rows: Rows, begin: NDArray[np.int64], end: NDArray[np.int64]) -> Rows:
    """The longest time without an operator in each of these stretches, whose ends are starts of operators or far."""
    start, busy = view.start[rows], np.maximum.accumulate(view.end[rows])
    first, last = (np.searchsorted(start, moment, side="left") for moment in (begin, end))
    gaps = np.append(np.maximum(start[1:] - busy[:-1], 0), 0)
    known = np.flatnonzero(first < np.minimum(last, len(rows)))
    places = np.column_stack((first[known], np.minimum(last[known], len(rows) - 1)))
    at = np.minimum(first, len(rows) - 1)
    longest: NDArray[np.int64] = start[at] - np.maximum(begin, np.append(-FAR, busy)[at])
    if len(known):
        longest[known] = np.maximum(longest[known], np.maximum.reduceat(gaps, places.ravel())[::2])
    return longest
