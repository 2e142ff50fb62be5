"""Figures for an answer: several at once, of what may not be recorded, and the saving of an unprofiled step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tools.analyzers.support.answers import cannot_answer, clean, say
from tools.errors import UsageError
from tools.findings import Argument, Check, Fact, Finding, Saving
from tools.metrics.registry import measure
from tools.views.host.records import HostRecords
from tools.views.profile import Profile
from tools.views.steps.series import SeriesOrigin, stated_by

WAITED_FOR = ("host", "data_wait")  # parts in which a device has nothing to do because the host has launched nothing
BEHIND_DEVICE = 0.45  # below what makes a verdict
DEVICE_OPEN = "Whether a device had work meanwhile is not recorded; then the step loses nothing to it."
WAITED_FOR_OTHERS = (*WAITED_FOR, "exposed_communication")  # and for the host of a rank that was not traced
NEEDED = "the training with `from hermes_agent import monitor` and `monitor.step()` after each step"
LONGER = "a longer run under the monitor: too little of the steps without a profiler lies between its samples"
NO_SAMPLES = "the monitor's samples of processes and machines: the run folder holds its records of steps only"
RECORDED_BY: Mapping[SeriesOrigin, str] = MappingProxyType(
    {
        "monitor": "monitor",
        "step_log": "step log",
        "ascend": "tables of the profiler",
        "operations": "table of operations",
    }
)
NOT_COUNTED = "a machine that reports this: what the monitor could record does not hold it"


def measure_all(profile: Profile, *metrics: str, **arguments: Argument) -> tuple[Fact, ...]:
    """Several metrics of the same arguments."""
    return tuple(measure(profile, metric, **arguments) for metric in metrics)


def measure_ranks(profile: Profile, ranks: Iterable[int], metric: str, **arguments: Argument) -> dict[int, Fact]:
    """One metric of each of the ranks."""
    return {rank: measure(profile, metric, rank=rank, **arguments) for rank in ranks}


def behind_device(finding: Finding) -> Finding:
    """A loss of host time where nobody recorded whether the device had work meanwhile: a hypothesis."""
    sure = min(finding.confidence, BEHIND_DEVICE)
    return replace(finding, confidence=sure, against=(*finding.against, say(DEVICE_OPEN)))


def measured(profile: Profile, metric: str, **arguments: Argument) -> Fact | None:
    """The figure, None where it is not recorded."""
    try:
        return measure(profile, metric, **arguments)
    except UsageError:
        return None


def by_rank(profile: Profile, records: HostRecords, metric: str, **arguments: Argument) -> dict[int, Fact]:
    """The figure of every sampled rank that has it."""
    found = {rank: measured(profile, metric, rank=rank, **arguments) for rank in records.ranks}
    return {rank: fact for rank, fact in found.items() if fact is not None}


def not_recorded(profile: Profile, what: str, *fields: str, otherwise: str = NOT_COUNTED) -> Check:
    """The open question where records lack something: a rate of sampled ``fields``, or ``otherwise``."""
    return cannot_answer(what, samples_needed(profile, *fields) or otherwise)


def samples_needed(profile: Profile, *fields: str) -> str:
    """What to record for a rate of each of these sampled fields over unprofiled steps; "" where all ranks have it."""
    recorded, samples = profile.records, profile.host_records
    if recorded is None or recorded.steps.empty:
        return NEEDED
    if recorded.system.empty:
        return NO_SAMPLES
    if samples is None:
        return LONGER
    if any(recorded.system[field].isna().all() for field in fields):
        return NOT_COUNTED
    rates = (samples.per_second(rank, field) for rank in samples.ranks for field in fields)
    return LONGER if any(rate is None for rate in rates) else ""


def _recorded_by(profile: Profile) -> str:
    """The source of the unprofiled steps, in words."""
    assert profile.series is not None
    origin = profile.series.origin
    return stated_by(profile.run) if origin == "job_log" else RECORDED_BY[origin]


def saving(
    profile: Profile, saved_ms: float, least: float, most: float, method: str, limit_ms: float = float("inf")
) -> Saving:
    """Of the mean unprofiled step, and measured in such; ``least`` and ``most`` are factors of what is expected."""
    assert profile.series is not None
    step_ms = profile.series.mean_ms
    saved, low, high = (min(factor * saved_ms, step_ms, limit_ms) for factor in (1.0, least, most))
    method = f"{_recorded_by(profile)}: {method}"
    return Saving(step_ms=step_ms, saved_ms=saved, least_ms=low, most_ms=high, method=method, of_series=True)


def host_saving(
    profile: Profile,
    ranks: Sequence[int],
    saved_ms: float,
    bounds: tuple[float, float],
    method: str,
    rare: bool = False,
) -> Saving:
    """The same of host time: on accelerators no more than ``host_limit_ms``; ``bounds`` are ``least`` and ``most``."""
    limit_ms = host_limit_ms(profile, ranks, rare)
    if limit_ms is None:
        return saving(profile, saved_ms, *bounds, method)
    return saving(profile, saved_ms, *bounds, f"{method}, as far as the device waits for the host", limit_ms)


def overlapped(profile: Profile, ranks: Sequence[int], cost: Fact, rare: bool = False) -> Check | None:
    """The clean answer of host time behind which the device works on; None where the step depends on the host."""
    limit_ms, series = host_limit_ms(profile, ranks, rare), profile.series
    if limit_ms is None or series is None or 100.0 * limit_ms >= profile.thresholds["noted_pct"] * series.mean_ms:
        return None
    seen, parts = _seen(profile, ranks)
    facts = (tuple(measure(profile, "part_pct", part=part, rank=rank) for part in parts) for rank in seen)
    most = max(facts, key=lambda shares: sum(share.value / 100.0 for share in shares))
    text = "The host spends {0} on this, but the device works meanwhile: it waits for the host {1} of a step"
    others = ", for others for {3}" if len(parts) > len(WAITED_FOR) else ""
    return clean(say(f"{text} and for data for {{2}}{others}.", cost, *most))


def host_limit_ms(profile: Profile, ranks: Sequence[int], rare: bool = False) -> float | None:
    """The most that host time of these ranks can add to the mean unprofiled step; None without accelerators.

    By the share of each traced step in which the device of some rank waits for its host. What is ``rare`` may have
    missed the trace: it can also account for what the mean step has over the median one.
    """
    seen, parts = _seen(profile, ranks)
    if not seen:
        return None
    assert profile.series is not None
    table = profile.breakdown[profile.breakdown["rank"].isin(seen)]
    waited_ns = table[[f"{part}_ns" for part in parts]].sum(axis=1).groupby(table["number"]).max()
    wall_ns = table["wall_ns"].groupby(table["number"]).mean()
    by_trace = float(waited_ns.sum()) / max(float(wall_ns.sum()), 1.0) * profile.series.mean_ms
    return max(by_trace, profile.series.mean_ms - profile.series.median_ms) if rare else by_trace


def _seen(profile: Profile, ranks: Sequence[int]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The traced ranks with a device on which the cost of these ranks' hosts shows, and the parts in which it does."""
    known = tuple(rank.rank for rank in profile.run.ranks if rank.has_device)
    return (tuple(ranks), WAITED_FOR) if set(ranks) <= set(known) else (known, WAITED_FOR_OTHERS)
