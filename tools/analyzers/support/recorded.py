"""What the analyzers of monitor records share: measuring what may not be recorded, and the saving of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tools.analyzers.support.answers import cannot_answer, clean, say
from tools.errors import UsageError
from tools.findings import Argument, Check, Fact, Finding, Saving
from tools.metrics.registry import measure
from tools.views.host_records import HostRecords
from tools.views.profile import Profile

WAITED_FOR = ("host", "data_wait")  # parts in which a device has nothing to do because the host has launched nothing
BEHIND_DEVICE = 0.45  # below what makes a verdict
DEVICE_OPEN = "Whether a device had work meanwhile is not recorded; then the step loses nothing to it."
WAITED_FOR_OTHERS = (*WAITED_FOR, "exposed_communication")  # and for the host of a rank that was not traced
NEEDED = "the training with `from hermes_agent import monitor` and `monitor.step()` after each step"


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


def not_recorded(what: str) -> Check:
    """The open question where records lack something."""
    return cannot_answer(what, NEEDED)


def saving(profile: Profile, saved_ms: float, least: float, most: float, method: str) -> Saving:
    """Of the mean unprofiled step; ``least`` and ``most`` are factors of what is expected."""
    assert profile.series is not None
    step_ms = profile.series.mean_ms
    return Saving(
        step_ms=step_ms,
        saved_ms=min(saved_ms, step_ms),
        least_ms=min(least * saved_ms, step_ms),
        most_ms=min(most * saved_ms, step_ms),
        method=f"monitor: {method}",
    )


def host_saving(
    profile: Profile,
    ranks: Sequence[int],
    saved_ms: float,
    bounds: tuple[float, float],
    method: str,
    rare: bool = False,
) -> Saving:
    """The saving of host time: on accelerators no more than the time that the device waits for the host.

    ``bounds`` are the factors ``least`` and ``most``; ``rare``: see ``host_limit_ms``.
    """
    limit_ms = host_limit_ms(profile, ranks, rare)
    whole = saving(profile, saved_ms, *bounds, method)
    if limit_ms is None:
        return whole
    return Saving(
        step_ms=whole.step_ms,
        saved_ms=min(whole.saved_ms, limit_ms),
        least_ms=min(whole.least_ms, limit_ms),
        most_ms=min(whole.most_ms, limit_ms),
        method=f"{whole.method}, as far as the device waits for the host",
    )


def overlapped(profile: Profile, ranks: Sequence[int], cost: Fact, rare: bool = False) -> Check | None:
    """The clean answer of host time behind which the device works on; None where the step depends on the host."""
    limit_ms = host_limit_ms(profile, ranks, rare)
    if limit_ms is None or 100.0 * limit_ms >= profile.thresholds["noted_pct"] * _mean_ms(profile):
        return None
    seen, parts = _seen(profile, ranks)
    most = max(seen, key=lambda rank: sum(_share(profile, rank, part) for part in parts))
    shares = tuple(measure(profile, "part_pct", part=part, rank=most) for part in parts)
    text = "The host spends {0} on this, but the device works meanwhile: it waits for the host {1} of a step"
    others = ", for others for {3}" if len(parts) > len(WAITED_FOR) else ""
    return clean(say(f"{text} and for data for {{2}}{others}.", cost, *shares))


def host_limit_ms(profile: Profile, ranks: Sequence[int], rare: bool = False) -> float | None:
    """The most that host time of these ranks can add to the mean unprofiled step; None without accelerators.

    By the share of the traced steps in which the device has nothing to do because the host has launched nothing; of
    ranks that do so in different steps the longest of each step counts, as the others wait for it. What is ``rare``
    may have missed the trace: it can also account for what the mean step has over the median one. What ranks without
    a trace cost is seen on the others, which wait for them in collectives.
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


def _share(profile: Profile, rank: int, part: str) -> float:
    return measure(profile, "part_pct", part=part, rank=rank).value / 100.0


def _mean_ms(profile: Profile) -> float:
    assert profile.series is not None
    return profile.series.mean_ms
