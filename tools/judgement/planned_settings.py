"""The exact setting that a planner or formula gives for a cause that was found, from the run's own figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tools.analyzers.overlap.pipeline import ENOUGH_PER_STAGE
from tools.errors import InputError, UsageError
from tools.findings import Fact, Finding, Sentence
from tools.judgement.catalog import measure
from tools.judgement.recomputation import kept_activations, recomputation_price
from tools.judgement.what_if import answered
from tools.metrics.communication.pipeline import pipeline
from tools.metrics.communication.pipeline_layers import PlannedStages, listed, possible_stages
from tools.views.communication.gradient_sync import exchanged_by
from tools.views.profile import Profile
from tools.whatif.planners import recorded_experts
from tools.whatif.planners.expert_degree import DegreePlan
from tools.whatif.planners.gradient_buckets import DDP_BUCKET_MB, BucketPlan
from tools.whatif.planners.record import Planned
from tools.whatif.planners.recorded_gradients import plan_run

LEAST_SPEEDUP = 1.01  # a smaller gain is within what two starts of one setting differ by
FOR_BUCKETS = "traces of all ranks of a few steps with record_shapes=True, or the gradients' times as JSON"
FOR_LAYERS = "times and bytes of each layer (a trace with with_modules=True and profile_memory=True)"


@dataclass(frozen=True)
class PlannedSetting:
    """A setting such as ``bucket_cap_mb=25`` ("" where the run lacks an input), and the sentence about it."""

    setting: str
    sentence: Sentence


def planned_setting(profile: Profile, finding: Finding) -> PlannedSetting | None:
    """The setting for a finding; None where no planner is about it."""
    if not profile.traced:
        return None
    make = PLANNED.get((finding.cause, finding.mechanism)) or PLANNED.get((finding.cause, None))
    return None if make is None else make(profile, finding)


def _buckets(profile: Profile, _: Finding) -> PlannedSetting | None:
    if exchanged_by(profile) != "ddp":
        return None
    try:
        made: Planned = profile.memo("plan:gradient-buckets", lambda: plan_run(profile))
    except InputError as error:
        text = (
            f"Which `bucket_cap_mb` is best cannot be planned: {_plain(error)}. The planner gradient-buckets needs "
            f"{FOR_BUCKETS}."
        )
        return PlannedSetting("", Sentence(text))
    assert isinstance(made.plan, BucketPlan)
    best = made.plan.ddp.bucket_cap_mb
    setting = f"bucket_cap_mb={DDP_BUCKET_MB if best is None else best:g}"
    default = ", the default," if best is None else ""
    gain = _gain(profile, setting)
    if not gain:
        return None
    text = (
        f"By simulation (planner gradient-buckets) `{setting}`{default} is the best, and a step {{0}} faster "
        "(range {1} to {2})."
    )
    return PlannedSetting(setting, Sentence(text, gain))


def _micro_batches(profile: Profile, _: Finding) -> PlannedSetting | None:
    stages = pipeline(profile)
    if stages is None:
        return None
    count = ENOUGH_PER_STAGE * stages.count
    now, left = (
        measure(profile, "pipeline_expected_bubble_pct", micro_batches=float(each))
        for each in (stages.micro_batches, count)
    )
    text = (
        f"Set `--num-micro-batches {count}` for the same batch: by (p - 1) / (m + p - 1) (GPipe, NeurIPS'19, section "
        "2.3) the bubble falls from {0} to {1} of the step; smaller micro-batches may compute less efficiently."
    )
    return PlannedSetting(f"micro_batches={count}", Sentence(text, (now, left)))


def _stages(profile: Profile, _: Finding) -> PlannedSetting | None:
    stages = pipeline(profile)
    if stages is None:
        return None
    heavy = int(stages.table.index.to_numpy(dtype="int64")[int(stages.table["compute_ms"].to_numpy().argmax())])
    own, mean = measure(profile, "stage_compute_ms", rank=heavy), measure(profile, "stage_compute_ms")
    planned = possible_stages(profile)
    if planned is not None:
        return _layers_per_stage(profile, planned, own)
    text = (
        f"Equal stages compute {{0}} per step, rank {heavy} computes {{1}}: move layers that take the difference. "
        f"Which ones the planner pipeline-memory computes from {FOR_LAYERS}."
    )
    return PlannedSetting("equal stages", Sentence(text, (mean, own)))


def _layers_per_stage(profile: Profile, planned: PlannedStages, own: Fact) -> PlannedSetting:
    now = listed(planned.layers.per_stage)
    if not planned.moves:
        text = f"By simulation (planner pipeline-memory) no cut of whole layers is more even than {now} per stage."
        return PlannedSetting("", Sentence(text))
    text = (
        f"By simulation (planner pipeline-memory) {listed(planned.per_stage)} layers per stage (now {now}, ranks "
        f"{listed(planned.layers.ranks)}) are the most even: the heaviest stage computes {{0}} per step instead of "
        "{1}. Check that the stages fit into memory, which was not recorded."
    )
    return PlannedSetting("equal stages", Sentence(text, (measure(profile, "planned_stage_ms"), own)))


def _workers(profile: Profile, _: Finding) -> PlannedSetting | None:
    """The fewest workers that make batches as fast as a step without its loader takes them, on the rank that needs
    most; None where the training process does not load by itself."""
    ranks = profile.run.rank_numbers
    known = [each for rank in ranks if (each := _measured(profile, "loader_workers_least", rank)) is not None]
    least = max(known, key=lambda each: each.value, default=None)
    if least is None:
        return None
    setting = f"num_workers={least.value:.0f}"
    batch = measure(profile, "loader_span_ms", rank=least.ranks[0])
    text = f"A step is in its loader for {{0}}: by that over the rest of the step, keeping up takes {{1}} (`{setting}`)"
    gain = _gain(profile, setting)
    text += " with a core for each"
    text += ", and a step is {2} faster then (range {3} to {4})." if gain else "."
    return PlannedSetting(setting, Sentence(text, (batch, least, *gain)))


def _measured(profile: Profile, name: str, rank: int) -> Fact | None:
    try:
        return measure(profile, name, rank=rank)
    except UsageError:
        return None


def _experts(profile: Profile, _: Finding) -> PlannedSetting:
    try:
        made: Planned = profile.memo("plan:expert-degree", lambda: recorded_experts.plan_run(profile))
    except InputError as error:
        text = (
            f"Into how many chunks to split the expert layer cannot be planned: {_plain(error)}. The planner "
            "expert-degree needs the sizes and times of all-to-alls and experts (all ranks, with record_shapes=True)."
        )
        return PlannedSetting("", Sentence(text))
    assert isinstance(made.plan, DegreePlan)
    if made.plan.degree == 1:
        return PlannedSetting(
            "", Sentence("By simulation (planner expert-degree) the expert layer is best left whole.")
        )
    text = (
        f"By simulation (planner expert-degree) {made.plan.degree} chunks of the expert layer overlap best with its "
        "all-to-alls, for balanced routing."
    )
    return PlannedSetting("", Sentence(text))


def _kept_activations(profile: Profile, finding: Finding) -> PlannedSetting:
    return PlannedSetting("", kept_activations(profile, finding))


def _recomputation_price(profile: Profile, finding: Finding) -> PlannedSetting | None:
    price = recomputation_price(profile, finding)
    return None if price is None else PlannedSetting("", price)


def _plain(error: InputError) -> str:
    """What is wrong, as it may stand in a sentence."""
    return str(error).replace("{", "(").replace("}", ")")


def _gain(profile: Profile, setting: str) -> tuple[Fact, ...]:
    """Speedup and its range; nothing where no gain is predicted."""
    found = answered(profile, setting).prediction
    if found is None or found.speedup < LEAST_SPEEDUP:
        return ()
    bounds = (measure(profile, "changed_speedup", changes=setting, bound=bound) for bound in ("low", "high"))
    return (measure(profile, "changed_speedup", changes=setting), *bounds)


PLANNED: dict[tuple[str, str | None], Callable[[Profile, Finding], PlannedSetting | None]] = {
    ("slow_data_processing", "too_few_workers"): _workers,
    ("small_packet", None): _buckets,
    ("poor_overlap", None): _buckets,
    ("pipeline_bubble", None): _micro_batches,
    ("pipeline_imbalance", None): _stages,
    ("memory_pressure", "recomputation"): _kept_activations,
    ("memory_pressure", "allocator_retry"): _recomputation_price,
    ("moe_imbalance", None): _experts,
}
