"""Saves that a trace without a device shows: the model's state is taken, and then the host pauses.

``Module.state_dict()`` detaches every parameter, one directly after the other; the forward and backward pass do not.
What the host does with the values afterwards (packing, writing) calls no operator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import EMPTY, IntervalSet, intersect, length
from tools.metrics.host.pauses import pauses
from tools.metrics.measurement import Measurement, metric, of_moments
from tools.run.events import EventKind
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

FEWEST = 10  # parameters; a loss and some metrics are detached as well
PARAMETERS = 0.5  # of those that get a gradient in a step: several passes count each of them more than once
MOST_STEPS = 0.5  # of the steps: what comes in more of them is not the saving of a state at intervals
SELECTOR = "from many aten::detach in a row to the next operator that computes, without an operator"


@dataclass(frozen=True, eq=False)
class StateSaves:
    """Numbers of the steps in which the state is taken, and the pauses that follow there."""

    steps: tuple[int, ...]
    moments: IntervalSet


NONE = StateSaves((), EMPTY)


@memoized
def state_saves(profile: Profile, rank: int) -> StateSaves:
    """The saves of one rank without a device; none where they come in most of its steps."""
    view = profile.rank(rank)
    rows = view.in_steps(np.flatnonzero((view.kind == EventKind.OPERATOR) & view.on_training_thread))
    rows = view.outermost(rows)
    rows = rows[np.argsort(view.start[rows], kind="stable")]
    first, last = _in_a_row(view, rows, profile.thresholds["dispatch_gap_us"] * 1e3)
    gradients = len(view.in_steps(np.flatnonzero(view.named("gradient_accumulated")))) / max(len(view.steps), 1)
    chosen = last - first + 1 >= max(FEWEST, PARAMETERS * gradients)
    taken = view.end[rows[last[chosen]]]
    spans = np.column_stack((taken, np.minimum(_work_after(view, rows, taken), _step_ends(view, taken))))
    moments = intersect(pauses(profile, rank), spans)
    held = [intersect(moments, span[None, :]) for span in spans]
    steps = {int(number) for number, own in zip(view.step_of(rows[last[chosen]]), held, strict=True) if length(own)}
    few = len(steps) <= MOST_STEPS * len(view.steps)
    return StateSaves(tuple(sorted(steps)), moments) if steps and few else NONE


def _in_a_row(view: RankProfile, rows: NDArray[np.int64], gap_ns: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last place of each run of detaching operators that follow directly on one another."""
    detached = view.named("detached")[rows]
    follows = detached[1:] & detached[:-1] & (view.start[rows[1:]] - view.end[rows[:-1]] <= gap_ns)
    begins = detached & ~np.append(False, follows)
    ends = detached & ~np.append(follows, False)
    return np.flatnonzero(begins[: len(rows)]), np.flatnonzero(ends[: len(rows)])


def _work_after(view: RankProfile, rows: NDArray[np.int64], moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """When other work begins: an operator that computes (as an average of the parameters does), or the data loader."""
    work = rows[~view.named("state_handling")[rows]]
    starts = np.sort(np.append(view.start[work], view.start[view.loader_rows]))
    after: NDArray[np.int64] = np.append(starts, np.iinfo(np.int64).max)[np.searchsorted(starts, moments)]
    return after


def _step_ends(view: RankProfile, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    steps = view.steps
    place = np.searchsorted(steps["start_ns"].to_numpy(), moments, side="right") - 1
    return steps["end_ns"].to_numpy()[np.maximum(place, 0)]


def _found(profile: Profile, rank: int) -> StateSaves:
    found = state_saves(profile, rank)
    if not found.steps:
        raise UsageError(f"no step of rank {rank} takes the model's state and then pauses")
    return found


@metric("ms", "pause per step after the state is taken", "How long does the host pause after the state is taken?")
def state_save_ms(profile: Profile, rank: int) -> Measurement:
    """Pauses of the host after the model's state is taken, per step over all steps of the rank."""
    view, found = profile.rank(rank), _found(profile, rank)
    return of_moments(view, length(found.moments) / 1e6 / len(view.steps), found.moments, SELECTOR)


@metric("ms", "pause after the state is taken in such a step", "How long is one of these pauses?")
def state_save_each_ms(profile: Profile, rank: int) -> Measurement:
    """The same over the steps in which the state is taken."""
    view, found = profile.rank(rank), _found(profile, rank)
    return of_moments(view, length(found.moments) / 1e6 / len(found.steps), found.moments, SELECTOR)


@metric("steps", "number of steps in which the state is taken", "In how many steps is the state taken?")
def state_save_steps(profile: Profile, rank: int) -> Measurement:
    """Steps of the rank in which the model's state is taken and the host then pauses."""
    found = _found(profile, rank)
    return of_moments(profile.rank(rank), float(len(found.steps)), found.moments, SELECTOR)
