"""Forward work on the host's threads: passes with and without gradients, and the backward passes between them.

PyTorch numbers an operator ("Sequence number") only while gradients are recorded. Forward work without a number is
evaluation, generation, or the first pass of a reentrant checkpoint; inside a node of the backward it is recomputation.
A node of the backward has the number of its forward operator: numbered work without such a node is run for no backward,
as in an evaluation that forgets ``torch.no_grad()``.
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


REGULAR = 0.1  # of their mean distance: so far apart may the distances of the steps that evaluate be, and one step


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Stretches of forward work that no backward pass follows in some of the steps: steps, and time on the thread."""

    track: int
    steps: tuple[int, ...]
    moments: IntervalSet
    rows: Rows  # its matrix operators
    gradients: bool  # whether gradients are recorded in it, for no backward pass


def forward_math(view: RankProfile) -> tuple[Rows, Rows]:
    """Matrix operators in steps outside of backward nodes: with gradients, and without (nor of the optimizer).

    Those inside a compilation are left out: a compiler runs the model on tensors without values to learn its operators.
    """
    recorded = math_operators(view)
    sequence = pd.Series(recorded["sequence"].to_numpy(), index=recorded["row"].to_numpy())
    rows = view.in_steps(np.asarray(recorded["row"], dtype=np.int64))
    rows = view.outermost(rows[view.on_training_thread[rows]])
    rows = rows[enclosing(view.events, rows, np.flatnonzero(view.named("backward_node"))) < 0]
    rows = rows[enclosing(view.events, rows, np.flatnonzero(view.named("compilation"))) < 0]
    numbered = (sequence.reindex(rows) >= 0).to_numpy()
    without = rows[~numbered]
    return rows[numbered], without[enclosing(view.events, without, np.flatnonzero(view.named("optimizer"))) < 0]


@memoized
def evaluation(profile: Profile, rank: int) -> Evaluation | None:
    """Forward passes that come in some of the rank's steps only and that no backward pass follows; None without any.

    They run without gradients, or else gradients are recorded and never used. In every step they may be a teacher, a
    target network, frozen layers or a reentrant checkpoint: training as it is meant.
    """
    view = profile.rank(rank)
    training, without = forward_math(view)
    if not len(training):
        return None
    if (found := _evaluation(view, training, without, gradients=False)) is not None:
        return found
    unused = _unused(view, training)
    return _evaluation(view, np.setdiff1d(training, unused), unused, gradients=True)


def _evaluation(view: RankProfile, training: Rows, without: Rows, gradients: bool) -> Evaluation | None:
    if not len(training) or not len(without):
        return None
    steps = view.step_of(without)
    counted = pd.Series(steps).value_counts()
    usual = int(np.median(np.unique(view.step_of(training), return_counts=True)[1]))
    long = sorted(counted.index[counted >= usual].astype(int).tolist())  # at least one whole pass
    if not long or 2 * len(long) > len(view.steps) or set(steps) - set(long):
        return None
    if gradients and not _recurring(view, training, long):
        return None
    track = int(view.track[without[0]])
    marks = np.flatnonzero((view.named("backward_node") | view.named("optimizer")) & (view.track == track))
    marks = np.union1d(marks, training[view.track[training] == track])
    spans = [_stretch(view, without[steps == step], marks) for step in long]
    moments = union(*(np.array(side, dtype=np.int64) for side in zip(*spans, strict=True)))
    return Evaluation(track, tuple(long), moments, without, gradients)


def _unused(view: RankProfile, numbered: Rows) -> Rows:
    """Forward operators with gradients whose number no backward node of the trace has.

    A frozen layer or a generator whose output is detached has none either, next to operators that have one: where most
    steps hold such, only stretches of a step between backward work without any operator of a backward pass count.
    """
    recorded = view.events.details.operators
    number = pd.Series(recorded["sequence"].to_numpy(), index=recorded["row"].to_numpy())
    nodes = np.flatnonzero(view.named("backward_node"))
    ran = number.reindex(nodes)
    used = number.reindex(numbered).isin(ran[ran >= 0]).to_numpy()
    if not used.any():
        return np.empty(0, dtype=np.int64)
    unused = numbered[~used]
    if 2 * len(np.unique(view.step_of(unused))) <= len(view.steps):
        return unused
    behind = np.searchsorted(np.sort(view.start[nodes]), view.start[numbered])
    stretch = behind + (len(nodes) + 1) * view.step_of(numbered)
    return numbered[~np.isin(stretch, stretch[used])]


def _recurring(view: RankProfile, training: Rows, steps: list[int]) -> bool:
    """Return whether several steps train as well and recur at one distance, as an evaluation does.

    A single one shows no rhythm: a start, or at the end of the trace a backward pass that is no longer recorded.
    """
    if len(steps) < 2 or not np.isin(steps, view.step_of(training)).all():
        return False
    gaps = np.diff(steps)
    return int(np.ptp(gaps)) <= max(1.0, REGULAR * float(gaps.mean()))


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
