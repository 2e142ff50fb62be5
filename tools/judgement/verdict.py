"""The verdict on the ranked causes: problem, healthy or inconclusive, why, and what to record next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tools.errors import UsageError
from tools.findings import Check
from tools.judgement.ranked_cause import RankedCause, steps_marked
from tools.judgement.unseen import (
    COUNTED,
    DEVICE_ALONE,
    DEVICE_NAMED,
    MAY_BE_DEVICE,
    NO_STEPS_SEEN,
    UNKNOWN_EVENTS,
    WANTED,
    WHOLE_EXPORT,
    WHOLE_TRACE,
    device_work_missing,
    host_missing,
    host_too,
)
from tools.judgement.without_steps import why_without_steps
from tools.metrics.communication.pipeline import expected_bubble, pipeline
from tools.metrics.recorded.collective_calls import hang, other_timeouts, seen_to_last
from tools.metrics.recorded.collective_lines import ras_counts
from tools.metrics.registry import measure
from tools.run.recorded.collective_records import RasRecords
from tools.views.communication.collective_counts import failed, lost
from tools.views.profile import Profile
from tools.views.steps.coarse import WHOLE_FILES, by_nsight, by_torch, capture_of
from tools.views.training_seen import work_seen

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


def unexplained_parts(profile: Profile, causes: Sequence[RankedCause]) -> tuple[str, ...]:
    """Parts of the step other than computation that are large and that no found cause accounts for, largest first."""
    if device_work_missing(profile) in (COUNTED, UNKNOWN_EVENTS):
        return ()  # the host waits for kernels that are run again and again, or nothing shows what it does
    limits = profile.thresholds
    shares = {part: _usual_pct(profile, part) for part in EXPLAINING}
    explained = {part: _explained_pct(profile, causes, set(explaining)) for part, explaining in EXPLAINING.items()}
    open_parts = [
        part
        for part, share in shares.items()
        if share >= limits["unexplained_part_pct"] and explained[part] < share * limits["explained_part_pct"] / 100.0
    ]
    return tuple(sorted(open_parts, key=lambda part: -shares[part]))


def _explained_pct(profile: Profile, causes: Sequence[RankedCause], explaining: set[str]) -> float:
    """Share of the step that causes of these families account for: together, or the largest of them alone."""
    own = [each for each in causes if families(each) & explaining]
    return max(sum(worth_pct(profile, each) for each in own), max(map(_alone_pct, own), default=0.0))


def _alone_pct(cause: RankedCause) -> float:
    if cause.alone is None or cause.alone.withheld:
        return 0.0
    return 100.0 * cause.alone.saving_ms / max(cause.alone.step_ms_before, 1e-9)


def families(cause: RankedCause) -> set[str]:
    """Its own family, and those in which its symptoms show."""
    return {cause.finding.family, *(symptom.family for symptom in cause.symptoms)}


def worth_pct(profile: Profile, cause: RankedCause) -> float:
    """Its share of the step, or what it is worth once everything above it is gone where that is more."""
    return max(cause.impact_pct, 100.0 * cause.then_ms / max(cause.step_ms, 1e-9))


def _usual_pct(profile: Profile, part: str) -> float:
    """The part's share of the step; waiting is bounded by unprofiled steps and CPU time, a bubble is left out."""
    share, series = part_pct(profile, part), profile.series
    if part == "data_wait":
        return min(share, _unprofiled_wait_pct(profile, share))
    if part != "exposed_communication":
        return share
    stages = pipeline(profile)
    if stages is not None:
        measured = stages.bubble_ms / profile.mean_step_ms
        share -= 100.0 * min(measured, expected_bubble(stages.count, stages.micro_batches))
    if profile.run.has_device or series is None:
        return share
    if series.origin != "monitor" or series.usual["thread_cpu_ms"].isna().any():
        return share
    off = 1.0 - float(series.usual["thread_cpu_ms"].sum()) / float(series.usual["wall_ms"].sum())
    return min(share, 100.0 * off, _idle_cores_pct(profile))


def _idle_cores_pct(profile: Profile) -> float:
    records = profile.host_records
    shares = [] if records is None else [records.idle_share(rank) for rank in records.ranks]
    known = [share for share in shares if share is not None]
    return 100.0 * max(known, default=1.0)


def _unprofiled_wait_pct(profile: Profile, otherwise_pct: float) -> float:
    """Share of the unprofiled steps that the rank which waits most for data waits; else the traced share."""
    if profile.series is None:
        return otherwise_pct
    ranks = profile.run.rank_numbers
    try:
        recorded = [measure(profile, "series_near_part_ms", part="data_wait", rank=rank).value for rank in ranks]
    except UsageError:
        return otherwise_pct
    return 100.0 * max(recorded) / profile.series.mean_ms if min(recorded, default=0.0) > 0.0 else otherwise_pct


def part_pct(profile: Profile, part: str) -> float:
    """Share of the traced steps of all ranks that a column of the breakdown takes."""
    table = profile.breakdown
    return 100.0 * float(table[f"{part}_ns"].sum()) / max(float(table["wall_ns"].sum()), 1.0)


Verdict = Literal["problem", "healthy", "inconclusive"]

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
FLIGHT_RECORDER = (
    "the flight recorder of all ranks (`TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1`), "
    "and `py-spy dump --pid PID` on the rank that is missing while it hangs"
)
OWN_STACKS = "`py-spy dump --pid PID` on these ranks while they hang"
STACKS = "the job's output with its watchdog lines, and `py-spy dump --pid PID` on these ranks while they hang"
ALL_STACKS = "two answers of `ncclras -f json -v`, a minute apart, and `py-spy dump --pid PID` on each rank that waits"
STEADY = "many more steps under the monitor, which records what each step waited for and when Python collected garbage"
NO_CAUSE = "no well-supported cause accounts for it"  # of a part of the step
UNCHECKED = "much of the step is not computation, and no check explains it"
STEPS_TO_BE_SURE = 3
UNSEEN_HOST = (
    "no problem is visible in what was recorded, but a trace of a processor's work does not show who else had its"
    " cores: contention, the interpreter lock and throttling were not observed"
)
HOST_RECORDS = "some steps with `hermes_agent.monitor`, which records the wait for a core"
MORE_SAMPLES = "a longer run under the monitor: it took no sample of the processes in steps without a profiler"
MARKED_STEPS = "steps marked with the profiler's step(), after a warm-up"
MARKS = (MARKED_STEPS, WHOLE_EXPORT)  # what is needed where no steps are marked


@dataclass(frozen=True)
class Judgement:
    """The verdict; ``why`` is a clause without figures, ``needs`` what would settle it ("" when it is settled).

    ``open_place``: it is open what happens in a place of the step, so the largest lead knows what settles it.
    """

    verdict: Verdict
    why: str
    needs: str = ""
    open_place: bool = False


def judge_steps(
    profile: Profile,
    causes: Sequence[RankedCause],
    checks: Sequence[Check],
    unexplained: Sequence[str],
    open_places: Sequence[RankedCause] = (),
) -> Judgement:
    """The verdict on the steps of a trace: causes that are ranked already, and parts that none of them explains."""
    limits = profile.thresholds
    if why := device_work_missing(profile):
        if why in WANTED:
            return Judgement("inconclusive", why, WANTED[why])
        needs = WHOLE_EXPORT if by_nsight(profile) else WHOLE_TRACE
        return Judgement("inconclusive", why, DEVICE_NAMED if why == MAY_BE_DEVICE else needs)
    large = [each for each in causes if each.impact_pct >= limits["cause_share_pct"]]
    sure = [each for each in large if each.finding.confidence >= limits["confidence"]]
    firm = [each for each in sure if each.alone is None or not each.alone.withheld]
    if any(_expected_pct(each) >= limits["cause_share_pct"] for each in firm):
        return Judgement("problem", "fixing a well-supported cause would save a noticeable share of the step")
    if not steps_marked(profile.run) and _large_if_steps_are_alike(profile, large):
        why = "no steps are marked, so nothing shows that training steps look like the recorded time"
        return Judgement("inconclusive", why, _needed(profile, unexplained, checks))
    if sure and not firm:
        why = "the recorded steps differ so much in length that what a change would save is within noise"
        return Judgement("inconclusive", why, MORE_STEPS)
    # All of a measured loss rules out healthy, whatever its cause; else the expected saving.
    certain = [_expected_pct(each) if each.finding.saving is None else each.impact_pct for each in large]
    if large and _certainly_lost(profile, large[0]):
        return Judgement("problem", "a large part of the step is lost for certain, whatever the cause turns out to be")
    if sure or any(lost >= limits["cause_share_pct"] for lost in certain):
        why = "fixing a cause would save a noticeable share of the step, but confidence in it is low"
        return Judgement("inconclusive", why, _needed(profile, unexplained, checks), steps_marked(profile.run))
    if any(each.impact_pct >= limits["cause_share_pct"] for each in open_places):
        return Judgement("inconclusive", "a rank is late, and what delays it was not recorded", HOST_RECORDS)
    return _without_cause(profile, causes, checks, unexplained)


def _large_if_steps_are_alike(profile: Profile, causes: Sequence[RankedCause]) -> bool:
    """Whether a cause would save a noticeable share, if every step of the training were like an unmarked recording."""
    limits = profile.thresholds
    least = limits["cause_share_pct"] * limits["unmarked_confidence"]
    return any(_expected_pct(each) >= least for each in causes)


def _without_cause(
    profile: Profile, causes: Sequence[RankedCause], checks: Sequence[Check], unexplained: Sequence[str]
) -> Judgement:
    """Healthy, unless something speaks against it that no cause was found for, or was not observed."""
    if unexplained or part_pct(profile, "compute") < profile.thresholds["healthy_compute_pct"]:
        return Judgement("inconclusive", UNCHECKED, _needed(profile, unexplained, checks), steps_marked(profile.run))
    if _unsteady(profile, causes):
        why = "some steps take much longer than the median step, and no cause explains them"
        return Judgement("inconclusive", why, STEADY)
    if outside_steps_rank(profile) is not None:
        why = "a large share of the recording is in none of the steps, which are not marked but inferred"
        return Judgement("inconclusive", why, MARKED_STEPS)
    if not any(check.status == "clean" for check in checks):
        why = "no check could be answered from this data"
        return Judgement("inconclusive", why, _needed(profile, (), checks))
    if not profile.run.has_device and not _host_observed(profile):
        return Judgement("inconclusive", UNSEEN_HOST, HOST_RECORDS if profile.run.records is None else MORE_SAMPLES)
    if host_missing(profile):
        return Judgement("inconclusive", DEVICE_ALONE, host_too(profile))
    if not steps_marked(profile.run) and work_seen(profile) != "training":
        return Judgement("inconclusive", NO_STEPS_SEEN, _needed(profile, (), checks))
    if profile.run.cut:
        return Judgement("inconclusive", "the whole traces show no problem, but others of the run are cut", WHOLE_FILES)
    if profile.run.lacks_traces:
        why = "the traces that could be read show no problem, but others of the run could not be read"
        return Judgement("inconclusive", why, WHOLE_FILES)
    return Judgement("healthy", "computation fills the step and fixing no cause would save a noticeable share")


def with_unfinished(profile: Profile, judged: Judgement) -> Judgement:
    """The verdict on the steps of a trace, or that on collectives which do not end: these are no part of any step.

    Waits that no time-out bounds only rule out healthy, and only where a rank is named: ranks of a running job wait
    too.
    """
    timed_out = _of_timeouts(profile)
    waiting = _of_collectives(profile) or timed_out
    if waiting is None or waiting.verdict == "problem":
        return waiting or judged
    named = profile.run.collectives is None or profile.run.collectives.flight is None or hang(profile).holding_up
    if judged.verdict == "problem" or (timed_out is None and not (judged.verdict == "healthy" and named)):
        return judged
    return waiting


def judge_records(profile: Profile, causes: Sequence[RankedCause]) -> Judgement:
    """The verdict without a trace: problem or inconclusive, never healthy: nobody saw inside of the steps."""
    limits = profile.thresholds
    waiting = _of_collectives(profile) or _of_timeouts(profile)
    if waiting is not None and waiting.verdict == "problem":
        return waiting
    sure = [each for each in causes if each.finding.confidence >= limits["confidence"]]
    if any(_expected_pct(each) >= limits["cause_share_pct"] for each in sure):
        return Judgement("problem", "fixing a well-supported cause would save a noticeable share of the step")
    if waiting is not None:
        return waiting
    if not profile.measured and not profile.run.cut:
        return Judgement("inconclusive", *why_without_steps(profile))
    if not profile.measured:
        why = "a cut trace does not show what it lacks: neither step time, nor shares of the step, nor causes are known"
        return Judgement("inconclusive", why, capture_of(profile))
    why = "no trace was read, and the records of whole steps show no cause that is both well supported and large"
    return Judgement("inconclusive", why, capture_of(profile))


def _of_timeouts(profile: Profile) -> Judgement | None:
    if profile.run.job_log is None or not profile.run.job_log.timeouts:
        return None
    return Judgement("inconclusive", "a collective timed out, and its log does not show why", FLIGHT_RECORDER)


def _of_collectives(profile: Profile) -> Judgement | None:
    """The verdict by records of collectives; None where these were not read, or no rank waits, fails or is missing."""
    records = profile.run.collectives
    if records is None:
        return None
    if records.flight is None or not hang(profile).waiting:
        return _of_ras(profile, records.ras)
    found = hang(profile)
    if found.mismatches:
        return Judgement("problem", "the ranks of a group called different collectives, which never end")
    if found.holding_up and seen_to_last(profile):
        return Judgement("problem", "a collective timed out, and the flight recorder shows who holds it up", OWN_STACKS)
    if found.holding_up and other_timeouts(profile):
        why = "the collective that timed out in the job's output is none of those that wait in the dumps"
        return Judgement("inconclusive", why, FLIGHT_RECORDER)
    if found.holding_up:
        why = "the flight recorder shows who is waited for, and its dumps do not show for how long"
        return Judgement("inconclusive", why, STACKS)
    why = "collectives have not ended, and the dumps of the flight recorder do not show which rank holds them up"
    return Judgement("inconclusive", why, ALL_STACKS if found.entered or found.each_other else FLIGHT_RECORDER)


def _of_ras(profile: Profile, records: RasRecords | None) -> Judgement | None:
    """The verdict by NCCL RAS; None where all ranks answer without an error and none is behind."""
    if records is None:
        return None
    if failed(records):
        return Judgement("problem", "NCCL RAS reports a rank as dead, or an error of a communicator")
    if lost(records):
        return Judgement("inconclusive", "NCCL RAS lacks ranks, and its answer does not show why", STACKS)
    if ras_counts(profile):
        why = "ranks are behind while no collective is called, and NCCL RAS does not show why"
        return Judgement("inconclusive", why, STACKS)
    return None


def outside_steps_rank(profile: Profile) -> int | None:
    """The rank with the largest share of its recording in none of its inferred steps; None where that is small."""
    inferred = [view.rank.rank for view in profile.ranks if view.outside_steps is not None]
    shares = {rank: measure(profile, "outside_steps_pct", rank=rank).value for rank in inferred}
    large = {rank: share for rank, share in shares.items() if share >= profile.thresholds["outside_steps_pct"]}
    return max(large, key=lambda rank: (large[rank], -rank), default=None)


def _expected_pct(cause: RankedCause) -> float:
    """The expected saving as a share of the step: less confidence counts for less."""
    return cause.impact_pct * cause.finding.confidence


def _certainly_lost(profile: Profile, cause: RankedCause) -> bool:
    """Return whether the part that the cause would explain is so large, in so many steps, that it is no chance."""
    if not steps_marked(profile.run) or len(profile.step_ms) < STEPS_TO_BE_SURE:
        return False
    if cause.alone is not None and cause.alone.withheld:
        return False
    own, limits = families(cause), profile.thresholds
    shares = {part: part_pct(profile, part) for part, explaining in EXPLAINING.items() if own & set(explaining)}
    return any(
        share >= limits["certain_loss_pct"]
        and worth_pct(profile, cause) >= share * limits["explained_part_pct"] / 100.0
        for share in shares.values()
    )


def _unsteady(profile: Profile, causes: Sequence[RankedCause]) -> bool:
    """Return whether long steps lift the mean step far over the median one and no cause explains them."""
    series = profile.series
    steps_ms = profile.step_ms if series is None else series.slowest_ms
    if len(steps_ms) < STEPS_TO_BE_SURE or not steps_marked(profile.run):
        return False
    over_pct = 100.0 * (float(steps_ms.mean()) / max(float(steps_ms.median()), 1e-9) - 1.0)
    limits = profile.thresholds
    explained = sum(each.impact_pct for each in causes)
    return over_pct >= limits["fluctuation_pct"] and explained < over_pct * limits["explained_part_pct"] / 100.0


def _host_observed(profile: Profile) -> bool:
    """Whether the monitor sampled the processes: then waits for a core and throttling are known."""
    records = profile.host_records
    traced = profile.run.rank_numbers
    return records is not None and all(rank in records.ranks and records.sampled_s(rank) > 0.0 for rank in traced)


def _needed(profile: Profile, unexplained: Sequence[str], checks: Sequence[Check]) -> str:
    """Return what to record: marks for the steps, else what the largest open part needs, else the first open check."""
    if not steps_marked(profile.run):
        return WHOLE_EXPORT if by_nsight(profile) else MARKED_STEPS
    parts = unexplained or [max(EXPLAINING, key=lambda part: part_pct(profile, part))]
    if unexplained or part_pct(profile, "compute") < profile.thresholds["healthy_compute_pct"]:
        return by_torch(profile, NEEDED[parts[0]])
    open_checks = [check.needs for check in checks if check.status == "cannot_answer" and check.needs]
    return open_checks[0] if open_checks else MORE_STEPS
