"""Forward work on the host's threads: passes with and without gradients, and the backward passes between them.

PyTorch numbers an operator ("Sequence number") only while gradients are recorded. Forward work without a number is
evaluation, generation, or the first pass of a reentrant checkpoint; inside a node of the backward it is recomputation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import IntervalSet, union
from tools.run.links import enclosing
from tools.views.device.roofline import math_operators
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Evaluation:
    """Stretches of forward work without gradients in some of the steps: their steps, and their time on the thread."""

    track: int
    steps: tuple[int, ...]
    moments: IntervalSet


def forward_math(view: RankProfile) -> tuple[Rows, Rows]:
    """Matrix operators in steps outside of backward nodes: with gradients, and without (nor of the optimizer)."""
    recorded = math_operators(view)
    sequence = pd.Series(recorded["sequence"].to_numpy(), index=recorded["row"].to_numpy())
    rows = view.in_steps(np.asarray(recorded["row"], dtype=np.int64))
    rows = view.outermost(rows[view.on_training_thread[rows]])
    rows = rows[enclosing(view.events, rows, np.flatnonzero(view.named("backward_node"))) < 0]
    numbered = (sequence.reindex(rows) >= 0).to_numpy()
    without = rows[~numbered]
    return rows[numbered], without[enclosing(view.events, without, np.flatnonzero(view.named("optimizer"))) < 0]


@memoized
def evaluation(profile: Profile, rank: int) -> Evaluation | None:
    """Forward passes without gradients that come in some of the rank's steps only; None where there are none.

    In every step they may be a teacher, a target network or a reentrant checkpoint: training as it is meant.
    """
    view = profile.rank(rank)
    training, without = forward_math(view)
    if not len(training) or not len(without):
        return None
    steps = view.step_of(without)
    counted = pd.Series(steps).value_counts()
    usual = int(np.median(np.unique(view.step_of(training), return_counts=True)[1]))
    long = sorted(counted.index[counted >= usual].astype(int).tolist())  # at least one whole pass
    if not long or 2 * len(long) > len(view.steps) or set(steps) - set(long):
        return None
    track = int(view.track[without[0]])
    marks = np.flatnonzero((view.named("backward_node") | view.named("optimizer")) & (view.track == track))
    marks = np.union1d(marks, training[view.track[training] == track])
    spans = [_stretch(view, without[steps == step], marks) for step in long]
    return Evaluation(track, tuple(long), union(*(np.array(side, dtype=np.int64) for side in zip(*spans, strict=True))))


def _stretch(view: RankProfile, rows: Rows, own: Rows) -> tuple[int, int]:
    """From the end of the last training work before these operators to the begin of the next one behind them."""
    first, last = int(view.start[rows].min()), int(view.end[rows].max())
    number = int(view.step_of(rows[:1])[0])
    step = view.rank.step(number)
    before = view.end[own][view.end[own] <= first]
    loaded = view.loader_rows[(view.start[view.loader_rows] >= last) & (view.start[view.loader_rows] < step.end_ns)]
    after = view.start[own][view.start[own] >= last]
    ends = [step.end_ns, *view.start[loaded][:1], *after.min(initial=step.end_ns, keepdims=True)]
    return max(step.start_ns, int(before.max(initial=step.start_ns))), int(min(ends))
