"""Evaluation inside the steps: forward passes in some of them that no backward pass follows."""

from __future__ import annotations

from tools.errors import UsageError
from tools.intervals import length
from tools.metrics.measurement import Measurement, metric, of_events, of_moments
from tools.views.host.phases import Evaluation, evaluation
from tools.views.profile import Profile


def _of(profile: Profile, rank: int) -> Evaluation:
    found = evaluation(profile, rank)
    if found is None:
        raise UsageError(f"no step of rank {rank} holds forward passes without a backward pass that others lack")
    return found


def _operators(found: Evaluation) -> str:
    with_number = "matrix operators with a sequence number that no backward node has"
    return with_number if found.gradients else "matrix operators without a sequence number"


@metric("ms", "evaluation time per step", "How long does evaluation take per step, over all steps?")
def evaluation_ms(profile: Profile, rank: int) -> Measurement:
    """Time in stretches of forward work that no backward pass follows, over all steps of the rank."""
    view, found = profile.rank(rank), _of(profile, rank)
    value = length(found.moments) / 1e6 / len(view.steps)
    return of_moments(
        view,
        value,
        found.moments,
        f"from training work to training work around {_operators(found)}",
    )


@metric("ms", "evaluation time in a step that evaluates", "How long does one evaluation take?")
def evaluation_each_ms(profile: Profile, rank: int) -> Measurement:
    """The same over the steps that hold some."""
    view, found = profile.rank(rank), _of(profile, rank)
    value = length(found.moments) / 1e6 / len(found.steps)
    return of_moments(view, value, found.moments, "one stretch for each step that evaluates")


@metric("steps", "number of steps that evaluate", "How many of the recorded steps hold an evaluation?")
def evaluation_steps(profile: Profile, rank: int) -> Measurement:
    """Steps with at least one whole forward pass that no backward pass follows."""
    view, found = profile.rank(rank), _of(profile, rank)
    return of_events(view, float(len(found.steps)), found.rows, _operators(found))
