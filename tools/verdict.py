"""What the ranked causes amount to: problem, healthy or inconclusive, why, and what to record next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from tools.errors import UsageError
from tools.findings import Check
from tools.intervals import IntervalSet, covered, length, union
from tools.metrics.registry import measure
from tools.profilers.capture import capture_of
from tools.profilers.pipeline import expected_bubble, pipeline
from tools.profilers.profile import Profile
from tools.run.events import EventKind
from tools.run.model import Run
from tools.whatif.change import Change, Scale

if TYPE_CHECKING:
    from tools.ranking import RankedCause

Verdict = Literal["problem", "healthy", "inconclusive"]

# Families whose causes lie behind a part of the breakdown. Nothing that is looked for makes launched work wait.
EXPLAINING: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "exposed_communication": ("communication", "parallel"),
        "exposed_memcpy": ("io", "memory", "cpu", "storage"),
        "data_wait": ("io",),
        "host": ("cpu", "io", "memory", "storage"),
        "idle": (),
    }
)
NEEDED: Mapping[str, str] = MappingProxyType(
    {
        "exposed_communication": "the traces of all ranks for the same steps, with collective sizes recorded",
        "exposed_memcpy": "the same steps with record_shapes=True and with_stack=True, which name who copies",
        "data_wait": "a record_function span around reading and one around transforming a batch",
        "host": "the same steps with with_stack=True, which names what the host does between launches",
        "idle": "the other ranks' traces, and stream synchronisation events (enable_cuda_sync_events=True)",
    }
)
MORE_STEPS = "many more steps under the same conditions, after a warm-up"
STEADY = "many more steps, under the monitor, which tells what each of them waited for and when Python collected"
WHOLE_TRACE = "the whole trace with ProfilerActivity.CPU and CUDA, and let the profiler finish writing"
DEVICE_BACKENDS = ("nccl", "rccl", "hccl", "xccl")  # collectives of these run on devices only
LAUNCHES_TOLD = 20  # fewer launches than this may be chance
MISSING_SHARE = 0.5  # of the launches: with fewer than this recorded on the device, what it did is not known
STEPS_TO_BE_SURE = 3
MARKED_STEPS = "steps marked with the profiler's step(), after a warm-up"
STARTED_SHARE = 0.05  # of all computation: before this much is done, an unmarked recording is still starting up


@dataclass(frozen=True)
class Judgement:
    """The verdict; ``why`` is a clause without figures, ``needs`` what would settle it ("" when it is settled)."""

    verdict: Verdict
    why: str
    needs: str = ""


def steps_marked(run: Run) -> bool:
    """Whether steps were found; without any, the whole recording stands for one step, its start-up included.

    Records tell whole steps.
    """
    return not run.ranks or any(rank.step_origin != "window" for rank in run.ranks)


def judge(
    profile: Profile, causes: Sequence[RankedCause], checks: Sequence[Check], unexplained: Sequence[str]
) -> Judgement:
    """The verdict on causes that are ranked already, and on the parts of the step that none of them explains."""
    limits = profile.thresholds
    if device_work_missing(profile):
        why = "the work of the device that the trace names is not in it: the trace is cut, or was recorded without it"
        return Judgement("inconclusive", why, WHOLE_TRACE)
    large = [each for each in causes if each.impact_pct >= limits["cause_share_pct"]]
    sure = [each for each in large if each.finding.confidence >= limits["confidence"]]
    firm = [each for each in sure if each.alone is None or not each.alone.withheld]
    lasting = [each for each in firm if _lasting_pct(profile, each) >= limits["cause_share_pct"]]
    if any(_expected_pct(each) >= limits["cause_share_pct"] for each in lasting):
        return Judgement("problem", "a cause with enough evidence would give back a noticeable share of the step")
    if firm and not lasting:
        why = "no steps are marked, and what costs most lies in the start-up of the recording"
        return Judgement("inconclusive", why, MARKED_STEPS)
    if sure and not firm:
        why = "the recorded steps differ so much in length that what a change would save cannot be told from chance"
        return Judgement("inconclusive", why, MORE_STEPS)
    if large and _certainly_lost(profile, large[0]):
        return Judgement("problem", "a large part of the step is lost for certain, whatever the cause turns out to be")
    if sure or any(_certain_pct(each) >= limits["cause_share_pct"] for each in large):
        why = "something would give back a noticeable share of the step, but the evidence is thin"
        return Judgement("inconclusive", why, _needed(profile, unexplained, checks))
    return _without_cause(profile, causes, checks, unexplained)


def _without_cause(
    profile: Profile, causes: Sequence[RankedCause], checks: Sequence[Check], unexplained: Sequence[str]
) -> Judgement:
    """Healthy, unless something speaks against it that no cause was found for."""
    if unexplained or _compute_pct(profile) < profile.thresholds["healthy_compute_pct"]:
        why = "much of the step is not computation, and no check could say why"
        return Judgement("inconclusive", why, _needed(profile, unexplained, checks))
    if _unsteady(profile, causes):
        why = "some steps take much longer than the usual one, and no cause that was found accounts for them"
        return Judgement("inconclusive", why, STEADY)
    if not any(check.status == "clean" for check in checks):
        why = "no question could be answered from these sources"
        return Judgement("inconclusive", why, _needed(profile, (), checks))
    return Judgement(
        "healthy", "computation fills the step and no cause can be expected to give back a noticeable share"
    )


def judge_records(profile: Profile, causes: Sequence[RankedCause]) -> Judgement:
    """The verdict without a trace: a problem can be told, but not that there is none: nobody saw inside of steps."""
    limits = profile.thresholds
    sure = [each for each in causes if each.finding.confidence >= limits["confidence"]]
    if any(_expected_pct(each) >= limits["cause_share_pct"] for each in sure):
        return Judgement("problem", "a cause with enough evidence would give back a noticeable share of the step")
    why = "no trace was read, and what records tell of whole steps shows no cause that is both sure and large"
    return Judgement("inconclusive", why, capture_of(profile))


def _expected_pct(cause: RankedCause) -> float:
    """The share of the step that mending it can be expected to give back: what is less sure counts for less."""
    return cause.impact_pct * cause.finding.confidence


def _certain_pct(cause: RankedCause) -> float:
    """The share that stands in the way of healthy: all of a loss that was measured, whatever its cause, else what
    can be expected of the hypothesis.
    """
    return _expected_pct(cause) if cause.finding.saving is None else cause.impact_pct


def _certainly_lost(profile: Profile, cause: RankedCause) -> bool:
    """Whether the part that the cause would explain is so large, and seen in so many steps, that it is no chance."""
    if not steps_marked(profile.run) or len(profile.step_ms) < STEPS_TO_BE_SURE:
        return False
    if cause.alone is not None and cause.alone.withheld:
        return False
    families, limits = _families(cause), profile.thresholds
    shares = {part: _part_pct(profile, part) for part, explaining in EXPLAINING.items() if families & set(explaining)}
    return any(
        share >= limits["certain_loss_pct"]
        and _worth_pct(profile, cause) >= share * limits["explained_part_pct"] / 100.0
        for share in shares.values()
    )


def device_work_missing(profile: Profile) -> bool:
    """Whether a rank's device cannot be judged: the trace names one but holds none of its work, or the host launched
    kernels of which hardly any is recorded.
    """
    for rank in profile.ranks:
        named = bool(rank.rank.devices) or profile.run.layout.backend in DEVICE_BACKENDS
        if named and not rank.rank.has_device:
            return True
        calls = np.flatnonzero(rank.named("kernel_launch") & (rank.kind == EventKind.RUNTIME))
        recorded = np.isin(calls, rank.launches["launch_row"].to_numpy()).sum()
        if len(calls) >= LAUNCHES_TOLD and recorded < MISSING_SHARE * len(calls):
            return True
    return False


def unexplained_parts(profile: Profile, causes: Sequence[RankedCause]) -> tuple[str, ...]:
    """Parts of the step other than computation that are large and that no found cause accounts for, largest first."""
    limits = profile.thresholds
    shares = {part: _usual_pct(profile, part) for part in EXPLAINING}
    told = {
        part: sum(_worth_pct(profile, each) for each in causes if _families(each) & set(families))
        for part, families in EXPLAINING.items()
    }
    open_parts = [
        part
        for part, share in shares.items()
        if share >= limits["unexplained_part_pct"] and told[part] < share * limits["explained_part_pct"] / 100.0
    ]
    return tuple(sorted(open_parts, key=lambda part: -shares[part]))


def _families(cause: RankedCause) -> set[str]:
    """Its own family, and those in which its symptoms show."""
    return {cause.finding.family, *(symptom.family for symptom in cause.symptoms)}


def _worth_pct(profile: Profile, cause: RankedCause) -> float:
    return max(cause.impact_pct, 100.0 * cause.then_ms / max(cause.step_ms, 1e-9))


def _unsteady(profile: Profile, causes: Sequence[RankedCause]) -> bool:
    """Whether long steps lift the mean step so far over the usual one, unprofiled where known, and nobody says why."""
    series = profile.series
    steps_ms = profile.step_ms if series is None else series.slowest_ms
    if len(steps_ms) < STEPS_TO_BE_SURE or not steps_marked(profile.run):
        return False
    over_pct = 100.0 * (float(steps_ms.mean()) / max(float(steps_ms.median()), 1e-9) - 1.0)
    limits = profile.thresholds
    told = sum(each.impact_pct for each in causes)
    return over_pct >= limits["fluctuation_pct"] and told < over_pct * limits["explained_part_pct"] / 100.0


def _usual_pct(profile: Profile, part: str) -> float:
    """The part's share of the step; waiting no more than steps without a profiler tell or leave room for, and waiting
    for others without the bubble that the schedule of a pipeline leaves by design.

    A rank without a device runs on its core whenever it does not wait: profiled steps, which are few, may wait more.
    And what it waits while the cores of its machine are busy no order of its exchanges gives back: who keeps them busy
    is asked elsewhere.
    """
    share, series = _part_pct(profile, part), profile.series
    if part == "data_wait":
        return min(share, _unprofiled_wait_pct(profile, share))
    if part != "exposed_communication":
        return share
    stages = pipeline(profile)
    if stages is not None:
        share -= 100.0 * min(stages.bubble_share, expected_bubble(stages.count, stages.micro_batches))
    if profile.run.has_device or series is None:
        return share
    if series.origin != "monitor" or series.usual["thread_cpu_ms"].isna().any():
        return share
    off = 1.0 - float(series.usual["thread_cpu_ms"].sum()) / float(series.usual["wall_ms"].sum())
    return min(share, 100.0 * off, _idle_cores_pct(profile))


def _idle_cores_pct(profile: Profile) -> float:
    """How idle the cores are on the machine where they are most so; 100 where no machine was counted."""
    records = profile.host_records
    shares = [] if records is None else [records.idle_share(rank) for rank in records.ranks]
    known = [share for share in shares if share is not None]
    return 100.0 * max(known, default=1.0)


def _unprofiled_wait_pct(profile: Profile, otherwise_pct: float) -> float:
    """Share of the unprofiled steps near the traced ones that the rank which waits most for data waits for it.

    The share of the traced steps where it is not told; none at all means that nobody watched the loader.
    """
    if profile.series is None:
        return otherwise_pct
    ranks = profile.run.rank_numbers
    try:
        told = [measure(profile, "series_near_part_ms", part="data_wait", rank=rank).value for rank in ranks]
    except UsageError:
        return otherwise_pct
    return 100.0 * max(told) / profile.series.mean_ms if min(told, default=0.0) > 0.0 else otherwise_pct


def _part_pct(profile: Profile, part: str) -> float:
    table = profile.breakdown
    return 100.0 * float(table[f"{part}_ns"].sum()) / max(float(table["wall_ns"].sum()), 1.0)


def _compute_pct(profile: Profile) -> float:
    return _part_pct(profile, "compute")


def _needed(profile: Profile, unexplained: Sequence[str], checks: Sequence[Check]) -> str:
    """What to record next: marks for the steps, else what the largest open part needs, else the first open check."""
    if not steps_marked(profile.run):
        return MARKED_STEPS
    parts = unexplained or [max(EXPLAINING, key=lambda part: _part_pct(profile, part))]
    if unexplained or _compute_pct(profile) < profile.thresholds["healthy_compute_pct"]:
        return NEEDED[parts[0]]
    open_checks = [check.needs for check in checks if check.status == "cannot_answer" and check.needs]
    return open_checks[0] if open_checks else MORE_STEPS


def _lasting_pct(profile: Profile, cause: RankedCause) -> float:
    """The cause's share of the step without what falls into the start-up of an unmarked recording."""
    if steps_marked(profile.run) or not cause.finding.change:
        return cause.impact_pct
    return cause.impact_pct * _share_after_start(profile, cause.finding.change)


def _share_after_start(profile: Profile, change: Change) -> float:
    """Share of what a change applies to that lies after the start-up."""
    after = whole = 0.0
    for part in change:
        rank = profile.rank(part.rank)
        spans = part.intervals if isinstance(part, Scale) else union(rank.start[part.rows], rank.end[part.rows])
        if len(spans):
            begin = np.array([_started_ns(rank.parts.compute, int(spans[0, 0]))], dtype=np.int64)
            after += float(covered(spans, begin, np.maximum(spans[-1:, 1], begin)).sum())
            whole += float(length(spans))
    return after / whole if whole else 1.0


def _started_ns(computing: IntervalSet, otherwise_ns: int) -> int:
    """When the first computation beyond ``STARTED_SHARE`` began."""
    if not len(computing):
        return otherwise_ns
    done = np.cumsum(computing[:, 1] - computing[:, 0])
    return int(computing[int(np.searchsorted(done, STARTED_SHARE * done[-1], side="right")), 0])
