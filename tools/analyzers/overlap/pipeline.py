"""Do the stages of a pipeline wait for each other: too few micro-batches, or one stage that computes longer?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.analyzers.support.confidence import confidence
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.intervals import IntervalSet, intersect, union
from tools.metrics.communication.pipeline import Stages, expected_bubble, pipeline
from tools.metrics.registry import measure
from tools.views.collectives import point_to_point, waiting_for_partner
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Change, Scale

BUBBLE, IMBALANCE = "pipeline.bubble", "pipeline.imbalance"
ENOUGH_PER_STAGE = 4  # micro-batches per stage from which on the bubble is negligible (GPipe, NeurIPS'19, section 2.3)
AGREEMENT = 0.5  # of the bubble that the schedule would leave: with less, the waiting is something else
NO_PIPELINE = "no ranks that send and receive in every step and begin it as stages of a pipeline do"


def analyze(profile: Profile) -> tuple[Check, ...]:
    """The bubble and the balance of the stages."""
    stages = pipeline(profile)
    if stages is not None:
        return _bubble(profile, stages), _imbalance(profile, stages)
    if len(profile.ranks) < 2 and len(point_to_point(profile)):
        needs = "the traces of the other stages for the same steps"
        return tuple(cannot_answer(name, "only one stage was traced", needs) for name in (BUBBLE, IMBALANCE))
    return tuple(clean(name, Sentence(f"The traces show {NO_PIPELINE}.")) for name in (BUBBLE, IMBALANCE))


def _bubble(profile: Profile, stages: Stages) -> Check:
    share, expected = measure(profile, "pipeline_bubble_pct"), measure(profile, "pipeline_expected_bubble_pct")
    count, passing = measure(profile, "pipeline_stages"), measure(profile, "pipeline_micro_batches")
    shape = Sentence("{0} stages pass {1} micro-batches per step.", (count, passing))
    wanted = ENOUGH_PER_STAGE * stages.count
    kept = expected_bubble(stages.count, wanted) / stages.bubble_share
    saved_ms = stages.bubble_ms * (1.0 - kept)
    saved_pct = 100.0 * saved_ms / profile.mean_step_ms
    if saved_pct < profile.thresholds["noted_pct"] or stages.micro_batches >= wanted:
        return clean(BUBBLE, shape, Sentence("A stage only waits for its neighbours {0} of the step.", (share,)))
    return found(
        BUBBLE,
        Finding(
            cause="pipeline_bubble",
            claim=Sentence(
                "The stages of the pipeline wait for each other {0} of the step because only {1} micro-batches pass "
                "through {2} stages; such a schedule leaves {3} idle.",
                (share, passing, count, expected),
            ),
            confidence=confidence(
                (saved_pct, profile.thresholds["cause_share_pct"]),
                (share.value, AGREEMENT * expected.value),
                at_most=0.9,
            ),
            ranks=_numbers(stages),
            steps=share.steps,
            change=_waiting_less(profile, stages, saved_ms),
            details=(
                Sentence(
                    f"With `micro_batches={wanted}` per step it would leave {{0}}.",
                    (measure(profile, "pipeline_expected_bubble_pct", micro_batches=float(wanted)),),
                ),
            ),
            against=(Sentence("Smaller micro-batches compute less efficiently; that cost is not in the prediction."),),
            disproved_by="a step with twice the micro-batches (same batch) that is not shorter",
            signals=(
                "idle share near (p-1)/(m+p-1)",
                "receive waits at step start and end",
                "few micro-batches per stage",
            ),
            symptom_of=("pipeline_imbalance",) if stages.imbalance_ms > stages.bubble_ms else (),
        ),
    )


def _imbalance(profile: Profile, stages: Stages) -> Check:
    over, mean = measure(profile, "stage_imbalance_pct"), measure(profile, "stage_compute_ms")
    heavy = _numbers(stages)[int(stages.table["compute_ms"].to_numpy().argmax())]
    own = measure(profile, "stage_compute_ms", rank=heavy)
    saved_pct = 100.0 * stages.imbalance_ms / profile.mean_step_ms
    if saved_pct < profile.thresholds["noted_pct"] or over.value < profile.thresholds["rank_spread_pct"]:
        text = "The heaviest stage computes {0} per step, the mean of the stages is {1}."
        return clean(IMBALANCE, Sentence(text, (own, mean)))
    return found(
        IMBALANCE,
        Finding(
            cause="pipeline_imbalance",
            claim=Sentence(
                f"The stage of rank {heavy} computes {{0}} per step, {{1}} longer than the mean stage ({{2}}), and the"
                " other stages wait for it.",
                (own, over, mean),
            ),
            confidence=confidence(
                (over.value, profile.thresholds["rank_spread_pct"]),
                (saved_pct, 0.5 * profile.thresholds["cause_share_pct"]),
                at_most=0.9,
            ),
            ranks=(heavy,),
            steps=own.steps,
            change=(*_waiting_less(profile, stages, stages.imbalance_ms), *_lighter(profile, stages, heavy)),
            details=tuple(
                Sentence(
                    f"rank {rank} computes {{0}} and only waits for its neighbours {{1}} per step.",
                    (
                        measure(profile, "stage_compute_ms", rank=rank),
                        measure(profile, "stage_wait_ms", rank=rank),
                    ),
                )
                for rank in _numbers(stages)
            ),
            disproved_by="layers moved away from this stage with the step as long as before",
            signals=("one stage's compute per micro-batch well above the others",),
            symptom_of=("slow_device", "cpu_contention"),
            hints={"rank": str(heavy)},
        ),
    )


def _numbers(stages: Stages) -> tuple[int, ...]:
    return tuple(stages.table.index.to_numpy(dtype=np.int64).tolist())


def _waiting_less(profile: Profile, stages: Stages, saved_ms: float) -> Change:
    """Every stage that waits waits so much less per step."""
    change: list[Scale] = []
    for rank, wait_ms in stages.table["wait_ms"].items():
        number = int(str(rank))
        for track, moments in _waits_by_track(profile, number).items():
            factor = max(0.0, 1.0 - saved_ms / wait_ms)
            change.append(Scale(number, track, moments, factor, 0.5 * (1.0 + factor)))
    return tuple(change)


def _waits_by_track(profile: Profile, rank: int) -> dict[int, IntervalSet]:
    view, table = profile.rank(rank), point_to_point(profile)
    rows = table["row"].to_numpy()[(table["rank"] == rank).to_numpy()]
    waiting = waiting_for_partner(profile, rank)
    parts = {
        int(track): intersect(waiting, _covered(view, rows[view.track[rows] == track]))
        for track in np.unique(view.track[rows])
    }
    return {track: moments for track, moments in parts.items() if len(moments)}


def _covered(view: RankProfile, rows: NDArray[np.int64]) -> IntervalSet:
    return union(view.start[rows], view.end[rows])


def _lighter(profile: Profile, stages: Stages, heavy: int) -> Change:
    """The heaviest stage computes as long as the mean stage."""
    view = profile.rank(heavy)
    factor = stages.mean_ms / stages.heaviest_ms
    tracks = np.unique(view.track[view.compute_kernels]) if view.rank.has_device else view.training_tracks
    return tuple(Scale(heavy, int(track), view.parts.compute, factor, 0.5 * (1.0 + factor)) for track in tracks)
