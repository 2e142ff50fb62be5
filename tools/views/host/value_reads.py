"""Loops of the program that hand values of tensors to Python one after the other: statistics, metrics, histograms.

``Tensor.item()`` and ``Tensor.numpy()`` are the operators that do so on a host. In a loop few operators lie between two
of them, those that make the value, and the Python code that works on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet, covered, union
from tools.run.events import EventKind
from tools.run.links import enclosing
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

Rows = NDArray[np.int64]
MOST_BETWEEN = 10  # operators that make one value; more are work of their own
LONGEST = 10.0  # times the median pause of a turn: a longer one is something else than the loop
# Work of the training itself, and values that Python hands to the model: where these come no value is only read.
TRAINING = ("forward_operator", "matrix_operator", "enclosing_operator", "communication_operator", "made_of_values")
AROUND = ("optimizer", "loader_span", "garbage_collection")  # an optimizer reads its own step counters


@dataclass(frozen=True, eq=False)
class ReadLoops:
    """``reads``: the operators that hand over a value in a loop. ``moments``: from each one's end to the next's."""

    reads: Rows
    moments: IntervalSet


@memoized
def read_loops(profile: Profile, rank: int) -> ReadLoops:
    """The loops of a rank's training threads inside its steps, the first turn of each left out."""
    view = profile.rank(rank)
    operators = view.outermost(
        view.in_steps(np.flatnonzero((view.kind == EventKind.OPERATOR) & view.on_training_thread))
    )
    found = [_turns(view, operators[view.track[operators] == track]) for track in np.unique(view.track[operators])]
    turns = np.concatenate(found) if found else np.empty((0, 2), dtype=np.int64)
    begin, end = view.end[turns[:, 0]], view.end[turns[:, 1]]
    paused = end - begin - covered(view.covered(operators), begin, end)
    usual = np.median(paused) if len(paused) else 0.0
    own = paused <= max(LONGEST * usual, profile.thresholds["dispatch_gap_us"] * 1e3)
    return ReadLoops(turns[own, 1], union(begin[own], end[own]))


def _turns(view: RankProfile, operators: Rows) -> NDArray[np.int64]:
    """Pairs of reads, one turn of a loop each, among the outermost operators of one thread in order of time."""
    around = np.flatnonzero(np.any([view.named(name) for name in AROUND], axis=0) & (view.kind != EventKind.OPERATOR))
    training = np.any([view.named(name)[operators] for name in TRAINING], axis=0)
    training |= enclosing(view.events, operators, around) >= 0
    reads = np.flatnonzero(view.named("value_read")[operators] & ~training)
    first, then = reads[:-1], reads[1:]
    before = np.cumsum(training)
    alone = (before[then] == before[first]) & (then - first <= MOST_BETWEEN + 1)
    alone &= view.step_of(operators[first]) == view.step_of(operators[then])
    alone &= ~_interrupted(view.start[around], view.end[operators[first]], view.start[operators[then]])
    return np.column_stack((operators[first[alone]], operators[then[alone]]))


def _interrupted(moments: Rows, begin: Rows, end: Rows) -> NDArray[np.bool_]:
    """Whether one of the moments lies in each of these stretches."""
    ordered = np.sort(moments)
    return np.searchsorted(ordered, end) > np.searchsorted(ordered, begin)
