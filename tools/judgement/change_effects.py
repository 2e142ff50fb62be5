"""What each change of the closed grammar does to a recorded run, or what the run lacks so that it can be predicted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from tools.analyzers.io.data_wait import loader_kind
from tools.analyzers.overlap.pipeline import evened, waiting_less
from tools.analyzers.support.changes import scaled, shortened, shortened_on
from tools.analyzers.support.excess import excesses, removal
from tools.errors import InputError, UsageError
from tools.intervals import length
from tools.judgement.ranking import ranking
from tools.knowledge.taxonomy import causes
from tools.metrics.communication.pipeline import Stages, pipeline
from tools.metrics.communication.pipeline_layers import listed, planned_stages
from tools.metrics.io import loader_spans
from tools.metrics.recorded.job_log import most_idle_pct, schedule_saving_pct, schedule_step_ms, stated_bubble_pct
from tools.views.communication.collectives import collectives
from tools.views.communication.transfers import fits, transfers
from tools.views.device.kernels import MATH_CLASSES, MATRIX_UNIT, device_of, kernel_table, spec_for
from tools.views.host.blocking import blocking_calls
from tools.views.profile import Profile
from tools.whatif.asked_changes import AskedChange
from tools.whatif.change import Change, Scale, Unblock
from tools.whatif.planners.recorded_gradients import with_bucket_cap
from tools.whatif.predict import FLOOR_SHARE, Prediction, reach, step_ms

Basis: TypeAlias = Literal["replay", "planner", "formula"]
LEAST_OF_PLAN = 0.5  # of a simulated saving: where transfers share cores with the computation, less of it shows
NARROW = ("fp16", "bf16", "fp8")
IN_FP16 = (
    "fp16 instead, for which it has them: a few steps under torch.autocast(dtype=torch.float16) with a gradient "
    "scaler, and compare them"
)
GPIPE = "(p - 1) / m with p stages and m micro-batches (GPipe, NeurIPS'19, section 2.3)"
UNSEEN = {
    "batch_size": "the kernels of another batch size were not recorded, and how their time grows is not known from one",
    "sequence_length": "the kernels of another sequence length were not recorded",
    "tensor_parallel": "a split of the layers over more devices makes other kernels and other collectives",
    "data_parallel": "the time of collectives among more ranks was not recorded",
    "pipeline_parallel": "another split into stages makes other transfers and another bubble",
}


@dataclass(frozen=True, eq=False)
class Effect:
    """A change as the replay applies it (``change``), else with the prediction of its own (``figure``)."""

    asked: str
    basis: Basis
    rests_on: str
    change: Change = ()
    figure: Prediction | None = None
    same_samples: bool = False  # the figure is of the time for as many samples as a step has now
    step_ms: float | None = None  # the mean step that figures of this change are of; None for the mean traced one


@dataclass(frozen=True)
class Refused:
    """A change that cannot be predicted from this run: why, and what to record or do instead."""

    asked: str
    why: str
    needs: str


def effect(profile: Profile, asked: AskedChange) -> Effect | Refused:
    """What the change does to the run, or why that cannot be said."""
    if asked.kind in UNSEEN:
        other = "; the planner `layout` compares layouts from a model's sizes" if "parallel" in asked.kind else ""
        return Refused(asked.text, UNSEEN[asked.kind], f"a few steps with the new setting, and compare them{other}")
    return EFFECTS[asked.kind](profile, asked)


def _buckets(profile: Profile, asked: AskedChange) -> Effect | Refused:
    try:
        found = with_bucket_cap(profile, asked.number)
    except InputError as error:
        needs = (
            "the traces of all ranks of a few steps, with record_shapes=True; else the input as JSON for "
            "`hermes-dx plan gradient-buckets`"
        )
        return Refused(asked.text, str(error), needs)
    saved_ms = found.before_ms - found.after_ms + found.launch_ms
    most_ms = saved_ms + max(found.shared_ms, 0.0)
    least_ms = LEAST_OF_PLAN * saved_ms if saved_ms > 0 else saved_ms + min(found.shared_ms, 0.0)
    missed_ms = abs(found.before_ms - profile.mean_step_ms)
    rests_on = (
        f"{_counted(found.buckets_after, 'bucket')} instead of {found.buckets_before} in the planner gradient-buckets "
        f"(which gives {found.before_ms:.4g} ms for the present ones), and {abs(found.launch_ms):.3g} ms "
        f"{'less' if found.launch_ms >= 0 else 'more'} for asking for the all-reduces"
    )
    figure = _figure(profile, saved_ms, least_ms, most_ms, min(missed_ms, abs(saved_ms)))
    return Effect(asked.text, "planner", rests_on, figure=figure)


def _figure(
    profile: Profile, saved_ms: float, least_ms: float, most_ms: float, error_ms: float, bound_ms: float | None = None
) -> Prediction:
    """A saving that no replay gives, with an interval as savings from records have it, not beyond ``bound_ms``."""
    before_ms, far = profile.mean_step_ms, reach(profile, "figure")
    floor_ms = FLOOR_SHARE * before_ms
    hopeful_ms = before_ms - saved_ms - far.hopeful * (most_ms - saved_ms) - error_ms
    if bound_ms is not None:
        hopeful_ms = max(hopeful_ms, before_ms - bound_ms)
    return Prediction(
        step_ms_before=before_ms,
        step_ms_after=max(before_ms - saved_ms, floor_ms),
        low_ms=max(hopeful_ms, floor_ms),
        high_ms=max(before_ms - saved_ms + far.cautious * (saved_ms - least_ms), floor_ms) + error_ms,
        steps=(),
        recorded_ms=before_ms,
        error_ms=0.0,
    )


def _workers(profile: Profile, asked: AskedChange) -> Effect | Refused:
    views = [view for view in profile.ranks if len(view.in_steps(view.loader_rows))]
    if not views:
        needs = "the loop over the DataLoader inside the profiled steps"
        return Refused(asked.text, "no data-loader span is recorded on a training thread", needs)
    if any(loader_kind(view) != "single" for view in views):
        why = "how long making a batch takes shows only where the training process loads the data itself"
        return Refused(asked.text, why, "a few steps with `num_workers=0`")
    rest_ms = step_ms(profile, _ready(profile))
    usable = _usable_workers(profile, int(asked.number))
    change = list[Scale]()
    for view in views:
        making_ms = length(loader_spans(view)) / 1e6 / max(len(view.steps), 1)
        left = max(making_ms / usable - rest_ms, 0.0) / max(making_ms, 1e-9)
        change += shortened(view, view.in_steps(view.loader_rows), min(left, 1.0))
    slowest_ms = max(length(loader_spans(view)) / 1e6 / max(len(view.steps), 1) for view in views)
    rests_on = (
        f"a batch is made in {slowest_ms:.4g} ms on the training thread, so {_counted(usable, 'worker')} make one "
        f"every {slowest_ms / usable:.4g} ms; the rest of a step takes {rest_ms:.4g} ms (replay); the longer counts"
    )
    if usable < asked.number:
        rests_on += f"; the machine has cores for {usable} of the {asked.number:.0f} workers only"
    elif _cores(profile) is None:
        rests_on += "; assumes a free core for each worker"
    return Effect(asked.text, "formula", rests_on, tuple(change))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _usable_workers(profile: Profile, workers: int) -> int:
    """Workers of each rank that find a core: those that the ranks' own threads leave, at least one."""
    cores = _cores(profile)
    if cores is None:
        return workers
    ranks = max(len(profile.ranks), profile.run.layout.world_size or 1) if not profile.run.has_device else 0
    return min(workers, max(1, math.floor((cores - ranks) / max(len(profile.ranks), 1))))


def _cores(profile: Profile) -> int | None:
    """Cores that the first rank may use, by the monitor's records of one machine; None where not recorded."""
    records = profile.host_records
    if records is None or len({view.rank.host for view in profile.ranks}) > 1:
        return None
    machine = records.environment(profile.ranks[0].rank.rank)
    return None if machine is None else (len(machine.allowed_cores) or machine.cores)


def _ready(profile: Profile) -> Change:
    ranks = [view.rank.rank for view in profile.ranks]
    return _as_asked(shortened_on(profile, ranks, lambda view: view.in_steps(view.loader_rows), 0.0))


def _as_asked(change: Change) -> Change:
    """The change exactly: what is asked for is no estimate."""
    return tuple(
        replace(part, cautious_factor=part.factor, asked=True)
        if isinstance(part, Scale)
        else replace(part, cautious_share=0.0)
        for part in change
    )


def _no_data_waits(profile: Profile, asked: AskedChange) -> Effect | Refused:
    change = _ready(profile)
    if not change:
        needs = "the loop over the DataLoader inside the profiled steps"
        return Refused(asked.text, "no data-loader span is recorded on a training thread", needs)
    return Effect(asked.text, "replay", "replay with data-loader calls that take no time", change)


def _micro_batches(profile: Profile, asked: AskedChange) -> Effect | Refused:
    if not profile.traced:
        return _by_schedule(profile, asked)
    stages = pipeline(profile)
    if stages is None:
        return _no_pipeline(asked)
    saved_ms = stages.saved_ms(asked.number)
    rests_on = (
        f"the recorded bubble of {stages.count} stages with m = {stages.micro_batches:.3g} is "
        f"{stages.bubble_ms:.4g} ms and shrinks like {GPIPE}; half of the host's own time, "
        f"{stages.table['host_ms'].min():.4g} ms per step, grows with m; how much less efficient smaller "
        "micro-batches are was not recorded, so the cautious view is no gain"
    )
    # Kernels of a smaller micro-batch take more than their share of the time: cautiously as much as the bubble shrinks.
    change = tuple(
        replace(part, cautious_factor=max(part.factor, 1.0)) if isinstance(part, Scale) else part
        for part in waiting_less(profile, stages, saved_ms)
    )
    return Effect(asked.text, "formula", rests_on, change)


def _equal_stages(profile: Profile, asked: AskedChange) -> Effect | Refused:
    stages = pipeline(profile)
    if stages is None:
        return _no_pipeline(asked)
    heavy = _heaviest(stages)
    change = evened(profile, stages, heavy)
    try:
        planned = planned_stages(profile)
    except InputError as error:
        rests_on = (
            f"replay with rank {heavy} computing {stages.mean_ms:.4g} ms per step, the mean of the stages, instead of "
            f"{stages.heaviest_ms:.4g} ms; how evenly whole layers can be cut is not known: {error}"
        )
        return Effect(asked.text, "replay", rests_on, change)
    now = listed(planned.layers.per_stage)
    if not planned.moves:
        why = f"no cut of whole layers is more even than the present one ({now} layers per stage)"
        return Refused(asked.text, why, "smaller layers, or stages of unequal devices")
    rests_on = (
        f"replay with rank {heavy} computing {planned.heaviest_ms:.4g} instead of {stages.heaviest_ms:.4g} ms per "
        f"step, with {listed(planned.per_stage)} layers per stage (now {now}) by the planner pipeline-memory; the mean "
        f"of the stages is {stages.mean_ms:.4g} ms"
    )
    return Effect(asked.text, "replay", rests_on, change)


def _heaviest(stages: Stages) -> int:
    return int(stages.table.index.to_numpy(dtype=np.int64)[int(stages.table["compute_ms"].to_numpy().argmax())])


def _by_schedule(profile: Profile, asked: AskedChange) -> Effect | Refused:
    """The time for as many samples by the schedule that the job's output states, each micro-batch as long as now."""
    try:
        now, then = stated_bubble_pct(profile), stated_bubble_pct(profile, asked.number)
        saved, longer = schedule_saving_pct(profile, asked.number), schedule_step_ms(profile, asked.number)
    except UsageError as error:
        needs = "the job's arguments (stages, micro and global batch size) in its output, or the traces of all stages"
        return Refused(asked.text, str(error), needs)
    saved_ms, idle_ms = (each.value / 100.0 * profile.mean_step_ms for each in (saved, now))
    least_ms, most_ms = sorted((LEAST_OF_PLAN * saved_ms, min(1.1 * saved_ms, idle_ms)))
    rests_on = (
        f"the job's schedule leaves {now.value:.3g} % of the step idle and would leave {then.value:.3g} %, by "
        f"(p - 1) / (v m + p - 1); a step of {asked.number:g} micro-batches, each as long as now, takes "
        f"{longer.value:.0f} ms, with a global batch in proportion"
    )
    bound_ms = max(most_idle_pct(profile), saved.value) / 100.0 * profile.mean_step_ms
    figure = _figure(profile, saved_ms, least_ms, most_ms, 0.0, bound_ms)
    return Effect(asked.text, "formula", rests_on, figure=figure, same_samples=True)


def _no_pipeline(asked: AskedChange) -> Refused:
    why = "the traces show no ranks that send and receive in every step as pipeline stages do"
    return Refused(asked.text, why, "the traces of all stages for the same steps")


def _rank(profile: Profile, asked: AskedChange) -> Effect | Refused:
    number = int(asked.number)
    profile.rank(number)  # a clear error where there is no such rank
    if len(profile.ranks) < 2:
        return Refused(asked.text, "only one rank is traced", "the traces of other ranks for the same steps")
    found = excesses(profile, number)
    parts = ", ".join(f"{each.fact.value:.4g} ms less in {each.part.replace('_', ' ')}" for each in found)
    rests_on = f"replay with rank {number} taking {parts}" if found else f"rank {number} takes no longer in any part"
    return Effect(asked.text, "replay", rests_on, _as_asked(removal(profile, number, found)))


def _link(profile: Profile, asked: AskedChange) -> Effect | Refused:
    table = collectives(profile)
    table = table[table["step"] >= 0]
    if table.empty:
        return Refused(asked.text, "no collective is recorded inside a step", "a run of several ranks")
    if not transfers(profile)["complete"].any():
        why = "how long a transfer takes without waiting for other ranks shows only where all its ranks are traced"
        return Refused(asked.text, why, "the traces of all ranks for the same steps, with record_shapes=True")
    limit = profile.thresholds["fit_error_pct"] / 100.0
    fixed = {(fit.kind, fit.group): fit.fixed_share for fit in fits(profile) if fit.error <= limit}
    change: list[Scale] = []
    for kind, group in sorted(
        {(str(kind), str(group)) for kind, group in zip(table["kind"], table["group"], strict=True)}
    ):
        known = fixed.get((kind, group))
        left = (known or 0.0) + (1.0 - (known or 0.0)) / asked.number
        exact = [each for each in scaled(profile, kind, left, group=group) if isinstance(each, Scale)]
        change += exact if known is None else [replace(each, cautious_factor=left, asked=True) for each in exact]
    latency = "what does not depend on size stays" if fixed else "latency is not known, and counted as if it shrank too"
    return Effect(
        asked.text, "replay", f"replay with transfers {asked.number:g} times as fast; {latency}", tuple(change)
    )


def _kernels(profile: Profile, asked: AskedChange) -> Effect | Refused:
    part, change, count = asked.name.casefold(), list[Scale](), 0
    for view in profile.ranks:
        codes = [code for code, name in enumerate(view.categories) if part in str(name).casefold()]
        rows = view.in_steps(view.kernels if view.rank.has_device else view.host_compute_rows)
        rows = view.outermost(rows[np.isin(view.codes[rows], codes)])
        count += len(rows)
        change += shortened(view, rows, 1.0 / asked.number)
    what = "kernels" if profile.run.has_device else "operators"
    if not count:
        why = f"no {what[:-1]} in the steps has {asked.name!r} in its name"
        return Refused(asked.text, why, f"a name that `hermes-dx {what} RUN` lists")
    rests_on = f"replay with {count} {what} of the recorded steps {asked.number:g} times as fast"
    return Effect(asked.text, "replay", rests_on, _as_asked(tuple(change)))


def _synchronisation(profile: Profile, asked: AskedChange) -> Effect | Refused:
    if not profile.run.has_device:
        why = "the run has no device whose work the host could wait for"
        return Refused(asked.text, why, "a trace with the activity of a device")
    change, count = list[Unblock](), 0
    for view in profile.ranks:
        rows = blocking_calls(profile, view.rank.rank)["row"].to_numpy(dtype=np.int64)
        count += len(rows)
        change += [Unblock(view.rank.rank, rows, 0.0)] if len(rows) else []
    rests_on = f"replay without the wait in {count} synchronising calls and blocking read-backs of the recorded steps"
    return Effect(asked.text, "replay", rests_on, tuple(change))


def _bf16(profile: Profile, asked: AskedChange) -> Effect | Refused:
    again = "a few steps under torch.autocast(dtype=torch.bfloat16), and compare them"
    if not profile.run.has_device:
        why = "how fast these processors multiply in bf16 was not recorded"
        return Refused(asked.text, why, again)
    change, whole_ns, moved_ns = list[Scale](), 0.0, 0.0
    for view in profile.ranks:
        spec = spec_for(view)
        if spec is None or "bf16" not in spec.matrix_tflops:
            device = device_of(view)
            unknown = "has no matrix units for bf16" if spec is not None else "is not in the table of devices"
            needs = IN_FP16 if spec is not None and "fp16" in spec.matrix_tflops else again
            return Refused(asked.text, f"the device {'' if device is None else device.name!r} {unknown}", needs)
        table = kernel_table(profile, view.rank.rank)
        table = table[np.isin(table["kernel_class"].astype(str), MATH_CLASSES)]
        whole_ns += float(table["duration_ns"].sum())
        kinds = table.assign(precision=table["precision"].astype(str)).groupby(["precision", "unit"], observed=True)
        for (precision, unit), rows in kinds:
            present = spec.peak_flops_per_s(str(precision), int(str(unit)) == MATRIX_UNIT)
            target = spec.peak_flops_per_s("bf16", matrix=True)
            if not precision or str(precision) in NARROW or present is None or target is None or target <= present:
                continue
            moved_ns += float(rows["duration_ns"].sum())
            on_matrix = int(str(unit)) == MATRIX_UNIT
            reached = profile.thresholds["matrix_efficiency_pct" if on_matrix else "vector_efficiency_pct"]
            left = min(present * reached / (target * profile.thresholds["matrix_efficiency_pct"]), 1.0)
            change += shortened(view, rows["row"].to_numpy(dtype=np.int64), left)
    if not whole_ns:
        return Refused(asked.text, "no matrix kernel is recorded inside a step", again)
    if not change:
        why = (
            "no matrix kernel names an arithmetic that bf16 would make faster: narrow already, or not shown by its name"
        )
        return Refused(asked.text, why, again)
    rests_on = (
        f"replay with {100.0 * moved_ns / whole_ns:.3g} % of the time of matrix kernels shortened by the ratio of the "
        "device's peaks (its datasheet) and usual efficiencies; other kernels and casts as they are"
    )
    return Effect(asked.text, "formula", rests_on, tuple(change))


def _without(profile: Profile, asked: AskedChange) -> Effect | Refused:
    cause, _, mechanism = asked.name.partition("/")
    known = ranking(profile)
    found = [each for each in (*known.causes, *known.below) if each.finding.cause == cause]
    same = [each for each in found if mechanism in ("", each.finding.mechanism)]
    if not same:
        have = ", ".join(dict.fromkeys(each.finding.cause for each in known.causes)) or "none"
        unknown = "" if cause in causes() else ", and Hermes knows no such cause (`hermes-dx cases` lists them)"
        return Refused(
            asked.text, f"{asked.name} was not found in this run{unknown}", f"a cause that was found: {have}"
        )
    change = tuple(part for each in same for part in each.finding.change)
    if change:
        return Effect(asked.text, "replay", f"replay without {asked.name}", change, step_ms=same[0].step_ms)
    first = same[0]
    if first.alone is None:
        return Refused(
            asked.text, f"{asked.name} can neither be replayed nor brings a saving along", "a trace of steps"
        )
    return Effect(asked.text, "formula", _method(first.method, first.alone), figure=first.alone, step_ms=first.step_ms)


SAME_STEP = 0.01  # of a step; less is rounding


def _method(method: str, figure: Prediction) -> str:
    """The method of a figure, with its step where that is longer than the mean one of the records."""
    outside_ms = figure.step_ms_before - figure.recorded_ms
    if outside_ms <= SAME_STEP * figure.recorded_ms:
        return method
    return (
        f"{method}; with {outside_ms:.4g} ms that the timer leaves out a step takes {figure.step_ms_before:.4g} ms, and"
        f" then {figure.step_ms_after:.4g} ms"
    )


EFFECTS: dict[str, Callable[[Profile, AskedChange], Effect | Refused]] = {
    "bucket_cap_mb": _buckets,
    "num_workers": _workers,
    "micro_batches": _micro_batches,
    "rank": _rank,
    "equal_stages": _equal_stages,
    "data": _no_data_waits,
    "link": _link,
    "kernels": _kernels,
    "bf16": _bf16,
    "synchronisation": _synchronisation,
    "without": _without,
}
