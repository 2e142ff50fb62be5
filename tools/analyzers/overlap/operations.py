"""By a table of step operations: which worker or pipeline stage makes the steps of a hybrid-parallel job longer?"""

from __future__ import annotations

from tools.analyzers.support.answers import cannot_answer, clean, confidence, say, symptom
from tools.analyzers.support.spec import check
from tools.errors import UsageError
from tools.findings import Check, Finding, Saving, Sentence
from tools.metrics.recorded.operations import operations, replays
from tools.metrics.registry import measure
from tools.views.profile import Profile

CAP = 0.9
METHOD = "replay of the recorded operations"
WHOLE_STEPS = "the operations of whole steps: every step and data-parallel rank with the same ones"


@check(
    *("pipeline.operations", "Operations of all workers", "Does one worker or pipeline stage make all steps longer?"),
    family="parallel",
    causes=("straggler", "pipeline_imbalance"),
    from_records="tables",
)
def operation_times(profile: Profile) -> Check | Finding | None:
    """A few workers, else one pipeline stage, without whose recorded times half of the slowdown would be gone."""
    if profile.run.operations is None or profile.traced or profile.series is None:
        return None
    try:
        found = replays(profile)
    except UsageError as error:
        return cannot_answer(f"the table's steps cannot be replayed: {error}", WHOLE_STEPS)
    slowdown = measure(profile, "operations_slowdown")
    step, ideal = (measure(profile, "replayed_step_ms", ideal=each) for each in ("nothing", "everything"))
    whole = say("With the ideal time of its type for every operation a step of {0} would take {1}.", step, ideal)
    if slowdown.value < profile.thresholds["slowed_job_factor"]:
        return clean(say("The recorded times make a step {0} as long as ideal ones.", slowdown), whole)
    slowed_ms = step.value - ideal.value
    without = measure(profile, "replayed_step_ms", ideal="workers")
    if (share := (step.value - without.value) / slowed_ms) >= profile.thresholds["explained_slowdown_share"]:
        return _workers(profile, share, min(step.value - without.value, step.value), whole)
    heavy = max(found.by_stage, key=lambda stage: found.by_stage[stage])
    without = measure(profile, "replayed_step_ms", ideal="stage", stage=heavy)
    if (share := (step.value - without.value) / slowed_ms) >= profile.thresholds["explained_slowdown_share"]:
        return _stage(profile, heavy, share, min(step.value - without.value, slowed_ms), whole)
    text = "Slow operations make a step {0} as long as ideal ones, and neither a few workers nor one stage explain it."
    return symptom(say(text, slowdown), whole)


def _workers(profile: Profile, share: float, saved_ms: float, whole: Sentence) -> Finding:
    """The slowest workers, but for those that hardly slow the step."""
    found = replays(profile)
    worst = found.worst_workers[0]
    half = 1.0 + 0.5 * (found.by_worker[worst] - 1.0)
    ranks = tuple(sorted(rank for rank in found.worst_workers if found.by_worker[rank] >= half))
    rows = operations(profile).rows
    place = rows.loc[rows["rank"] == worst, ["stage", "dp_rank"]].iloc[0]
    slowdown = measure(profile, "operations_slowdown", rank=worst)
    own, every = measure(profile, "computed_ms", rank=worst), measure(profile, "computed_ms")
    where = f"Rank {worst} (pipeline stage {place['stage']}, data-parallel rank {place['dp_rank']})"
    text = f"{where} is slow: its recorded times alone make a step {{0}} as long as ideal ones."
    return Finding(
        cause="straggler",
        claim=say(text, slowdown),
        confidence=confidence(
            (slowdown.value, profile.thresholds["slowed_job_factor"]),
            (share, profile.thresholds["explained_slowdown_share"]),
            at_most=CAP,
        ),
        ranks=ranks,
        saving=_saving(profile, saved_ms),
        details=(whole, say(f"Rank {worst} computes {{0}} per step, the mean of the ranks is {{1}}.", own, every)),
        hints={"rank": str(worst)},
        signals=("one rank computes longer than the others",),
        disproved_by=f"the step is as long once rank {worst} runs on another device",
    )


def _stage(profile: Profile, heavy: int, share: float, saved_ms: float, whole: Sentence) -> Finding:
    rows = operations(profile).rows
    ranks = tuple(sorted(int(rank) for rank in rows.loc[rows["stage"] == heavy, "rank"].unique()))
    own, mean = measure(profile, "computed_ms", stage=heavy), measure(profile, "computed_ms")
    alone, slowdown = measure(profile, "operations_slowdown", stage=heavy), measure(profile, "operations_slowdown")
    return Finding(
        cause="pipeline_imbalance",
        claim=say(f"Pipeline stage {heavy} computes {{0}} per step, the mean of the stages is {{1}}.", own, mean),
        confidence=confidence(
            (slowdown.value, profile.thresholds["slowed_job_factor"]),
            (share, profile.thresholds["explained_slowdown_share"]),
            at_most=CAP,
        ),
        ranks=ranks,
        saving=_saving(profile, saved_ms),
        details=(
            whole,
            say(f"The recorded times of stage {heavy} alone make a step {{0}} as long as ideal ones.", alone),
        ),
        hints={"rank": str(ranks[0])},
        signals=("one stage's compute per micro-batch well above the others",),
        disproved_by="the step is as long after layers were moved away from this stage",
    )


def _saving(profile: Profile, saved_ms: float) -> Saving:
    step_ms = profile.mean_step_ms
    saved = min(saved_ms, step_ms)
    return Saving(step_ms, saved, 0.8 * saved, min(1.1 * saved, step_ms), METHOD)
