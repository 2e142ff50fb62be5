"""Large parts of the step that are no computation, and which causes account for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tools.errors import UsageError
from tools.judgement.ranked_cause import RankedCause
from tools.metrics.communication.pipeline import expected_bubble, pipeline
from tools.metrics.registry import measure
from tools.views.profile import Profile

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
    """Share of the step that causes of these families account for: together, or the largest of them alone.

    A straggler's own cause, ranked above, takes its saving from the waiting for that rank and still explains it.
    """
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
    """The part's share of the step: waiting bounded by unprofiled steps, communication without the pipeline's bubble.

    A rank without a device runs on its core whenever it does not wait, so its recorded CPU time bounds the waiting. No
    order of its exchanges saves what it waits while the cores of its machine are busy.
    """
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
    """Idle share of the cores on the machine with the most; 100 where no machine was counted."""
    records = profile.host_records
    shares = [] if records is None else [records.idle_share(rank) for rank in records.ranks]
    known = [share for share in shares if share is not None]
    return 100.0 * max(known, default=1.0)


def _unprofiled_wait_pct(profile: Profile, otherwise_pct: float) -> float:
    """Share of the unprofiled steps near the traced ones that the rank which waits most for data waits for it.

    Else the share of the traced steps; no wait at all means that the loader was not watched.
    """
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
