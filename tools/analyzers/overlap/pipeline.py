"""Do pipeline stages wait for each other: too few micro-batches, or one stage that computes longer?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tools.analyzers.support.answers import cannot_answer, clean, confidence, say
from tools.analyzers.support.changes import shortened
from tools.analyzers.support.figures import measure_all
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence
from tools.intervals import intersect
from tools.metrics.communication.pipeline import LEAST_STEPS, Stages, expected_bubble, pipeline
from tools.metrics.communication.pipeline_layers import possible_stages
from tools.metrics.registry import measure
from tools.views.communication.collectives import point_to_point, waiting_for_partner
from tools.views.profile import Profile
from tools.whatif.change import Change, Scale

ENOUGH_PER_STAGE = 4  # micro-batches per stage from which on the bubble is negligible (GPipe, NeurIPS'19, section 2.3)
FEW_STEPS_CAP = 0.45  # below the confidence of a verdict: too few steps to show how they scatter
AGREEMENT = 0.5  # of the bubble that the schedule would leave: with less, the waiting is something else


def _no_stages(profile: Profile) -> Check:
    if len(profile.ranks) < 2 and len(point_to_point(profile)):
        return cannot_answer("only one stage was traced", "the traces of the other stages for the same steps")
    return clean(say("The traces show no ranks that send and receive in every step as pipeline stages do."))


@check(
    *("pipeline.bubble", "Pipeline bubble", "Are there too few micro-batches to fill the pipeline?"),
    family="parallel",
    causes=("pipeline_bubble",),
)
def bubble(profile: Profile) -> Check | Finding:
    """Time that stages wait for their neighbours beyond what enough micro-batches would leave."""
    stages = pipeline(profile)
    if stages is None:
        return _no_stages(profile)
    share, expected, count, passing = measure_all(
        profile, "pipeline_bubble_pct", "pipeline_expected_bubble_pct", "pipeline_stages", "pipeline_micro_batches"
    )
    wanted = ENOUGH_PER_STAGE * stages.count
    saved_ms = stages.bubble_ms * (1.0 - expected_bubble(stages.count, wanted) / stages.bubble_share)
    saved_pct = 100.0 * saved_ms / profile.mean_step_ms
    if saved_pct < profile.thresholds["noted_pct"] or stages.micro_batches >= wanted:
        shape = say("{0} stages pass {1} micro-batches per step.", count, passing)
        return clean(
            shape, say("Beyond what unequal stages cause, a stage waits for its neighbours {0} of the step.", share)
        )
    left = measure(profile, "pipeline_expected_bubble_pct", micro_batches=float(wanted))
    text = (
        "Beyond what unequal stages cause, pipeline stages wait {0} of the step: only {1} micro-batches pass through"
        " {2} stages, which leaves equal ones {3} idle."
    )
    return Finding(
        cause="pipeline_bubble",
        claim=say(text, share, passing, count, expected),
        confidence=confidence(
            (saved_pct, profile.thresholds["cause_share_pct"]),
            (share.value, AGREEMENT * expected.value),
            at_most=0.9,
        ),
        ranks=_numbers(stages),
        change=waiting_less(profile, stages, saved_ms),
        details=(say(f"With `micro_batches={wanted}` per step it would leave {{0}}.", left),),
        symptom_of=("pipeline_imbalance",) if stages.imbalance_ms > stages.bubble_ms else (),
    )


@check(
    *("pipeline.imbalance", "Pipeline balance", "Does one pipeline stage compute longer than the others?"),
    family="parallel",
    causes=("pipeline_imbalance",),
)
def imbalance(profile: Profile) -> Check | Finding:
    """One stage whose computation the other stages wait for."""
    stages = pipeline(profile)
    if stages is None:
        return _no_stages(profile)
    over, mean = measure_all(profile, "stage_imbalance_pct", "stage_compute_ms")
    heavy = _numbers(stages)[int(stages.table["compute_ms"].to_numpy().argmax())]
    own, limits = measure(profile, "stage_compute_ms", rank=heavy), profile.thresholds
    saved_pct = 100.0 * stages.imbalance_ms / profile.mean_step_ms
    if saved_pct < limits["noted_pct"] or over.value < limits["rank_spread_pct"]:
        return clean(say("The heaviest stage computes {0} per step, the mean of the stages is {1}.", own, mean))
    least = None if stages.least_imbalance_ms is None else measure(profile, "least_stage_excess_ms")
    if least is not None and least.value <= 0:
        text = (
            "The stage of rank {n0} computes {0} per step, {1} longer than the mean, on average of {n1} traced steps."
        )
        names = (str(heavy), str(len(stages.steps_ms)))
        reason = "the excess of the heaviest stage is within noise of the traced steps"
        return cannot_answer(reason, "a trace of more steps", say(text, own, over, names=names))
    each = {rank: measure_all(profile, "stage_compute_ms", "stage_wait_ms", rank=rank) for rank in _numbers(stages)}
    text = (
        f"The stage of rank {heavy} computes {{0}} per step, {{1}} longer than the mean ({{2}}), and the others wait."
    )
    return Finding(
        cause="pipeline_imbalance",
        claim=say(text, own, over, mean),
        confidence=confidence(
            (over.value, limits["rank_spread_pct"]),
            (saved_pct, 0.5 * limits["cause_share_pct"]),
            *([] if least is None else [(100.0 * least.value / profile.mean_step_ms, limits["cause_share_pct"])]),
            at_most=FEW_STEPS_CAP if least is None else 0.9,
        ),
        ranks=(heavy,),
        change=evened(profile, stages, heavy),
        details=(
            *(
                say(f"rank {rank} computes {{0}} and only waits for its neighbours {{1}} per step.", *facts)
                for rank, facts in each.items()
            ),
            _sure_of(least),
        ),
        symptom_of=("slow_device", "cpu_contention"),
        hints={"rank": str(heavy)},
    )


def _sure_of(least: Fact | None) -> Sentence:
    """How much of the excess the scatter of the steps leaves sure."""
    if least is None:
        return say(f"Fewer than {LEAST_STEPS} steps of all stages are traced, so the excess may be chance.")
    return say("By the scatter of the traced steps the excess is at least {0} (95 %).", least)


def _numbers(stages: Stages) -> tuple[int, ...]:
    return tuple(stages.table.index.to_numpy(dtype=np.int64).tolist())


def waiting_less(profile: Profile, stages: Stages, saved_ms: float) -> Change:
    """Every stage waits so much less for its neighbours per step."""
    change: list[Scale] = []
    table = point_to_point(profile)
    for number, wait_ms in zip(_numbers(stages), stages.table["wait_ms"].tolist(), strict=True):
        rows = table["row"].to_numpy()[(table["rank"] == number).to_numpy()]
        waiting = waiting_for_partner(profile, number)
        for scale in shortened(profile.rank(number), rows, 0.0, 0.0):
            moments = intersect(waiting, scale.intervals)
            if len(moments):
                factor = max(0.0, 1.0 - saved_ms / wait_ms)
                change.append(replace(scale, intervals=moments, factor=factor, cautious_factor=0.5 * (1.0 + factor)))
    return tuple(change)


def evened(profile: Profile, stages: Stages, heavy: int) -> Change:
    """The stages compute as evenly as a cut of the recorded layers allows, the mean where these are not known."""
    planned = possible_stages(profile)
    target_ms = planned.heaviest_ms if planned is not None and planned.moves else stages.mean_ms
    saved_ms = stages.heaviest_ms - target_ms
    return (*waiting_less(profile, stages, saved_ms), *_lighter(profile, heavy, target_ms / stages.heaviest_ms))


def _lighter(profile: Profile, heavy: int, factor: float) -> Change:
    """The heavy stage computes for so much of its time."""
    view = profile.rank(heavy)
    tracks = np.unique(view.track[view.compute_kernels]) if view.rank.has_device else view.training_tracks
    return tuple(Scale(heavy, int(track), view.parts.compute, factor, 0.5 * (1.0 + factor)) for track in tracks)
