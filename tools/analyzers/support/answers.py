"""What an answer is made of: outcome, sentences with figures, confidence, the ranks concerned, the saving of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tools.errors import UsageError
from tools.findings import Argument, Check, Fact, Finding, Saving, Sentence
from tools.metrics.registry import measure
from tools.views.host_records import HostRecords
from tools.views.profile import Profile

HIGHEST = 0.95  # no deterministic rule is surer than this


def found(*findings: Finding) -> Check:
    """The answer with at least one finding; its name is filled in where the check is run."""
    return Check("", "found", findings=findings)


def symptom(*support: Sentence) -> Check:
    """The answer where something was found that is not itself a cause."""
    return Check("", "found", support=support)


def clean(*support: Sentence) -> Check:
    """The answer where nothing is wrong; the sentences show it."""
    return Check("", "clean", support=support)


def cannot_answer(reason: str, needs: str, *support: Sentence) -> Check:
    """The answer where the sources do not allow one, and what to record."""
    return Check("", "cannot_answer", reason=reason, needs=needs, support=support)


def say(text: str, *facts: Fact, names: tuple[str, ...] = ()) -> Sentence:
    """A sentence with places ``{0}`` for facts and ``{n0}`` for names read from the run."""
    return Sentence(text, facts, names)


def measure_all(profile: Profile, *metrics: str, **arguments: Argument) -> tuple[Fact, ...]:
    """Several metrics of the same arguments."""
    return tuple(measure(profile, metric, **arguments) for metric in metrics)


def measure_ranks(profile: Profile, ranks: Iterable[int], metric: str, **arguments: Argument) -> dict[int, Fact]:
    """One metric of each of the ranks."""
    return {rank: measure(profile, metric, rank=rank, **arguments) for rank in ranks}


def values(figures: Mapping[int, float | Fact]) -> dict[int, float]:
    """The figures alone."""
    return {rank: figure.value if isinstance(figure, Fact) else figure for rank, figure in figures.items()}


def affected(shares_pct: Mapping[int, float | Fact], noted_pct: float) -> tuple[int, ...]:
    """The ranks whose share is worth noting and at least a fifth of the worst rank's; ascending."""
    shares = values(shares_pct)
    worst = max(shares.values(), default=0.0)
    return tuple(sorted(rank for rank, share in shares.items() if share >= max(noted_pct, worst / 5.0)))


def worst_of(shares_pct: Mapping[int, float | Fact]) -> int:
    """The rank with the largest share; the lowest of several."""
    shares = values(shares_pct)
    return min(shares, key=lambda rank: (-shares[rank], rank))


def confidence(*passed: tuple[float, float], at_most: float = HIGHEST) -> float:
    """From pairs (value, threshold): 0.5 where the tightest is just passed, 0.75 at twice, 0.9 at five times it.

    A value below its threshold gives less than 0.5. ``at_most`` caps the result where the evidence itself is weak.
    """
    ratio = min((value / threshold for value, threshold in passed), default=1.0)
    certain = 1.0 - 0.5 / ratio if ratio >= 1.0 else 0.5 * max(ratio, 0.0)
    return round(min(certain, at_most, HIGHEST), 3)


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


def saving(
    profile: Profile, saved_ms: float, least: float, most: float, method: str, limit_ms: float = float("inf")
) -> Saving:
    """Of the mean unprofiled step; ``least`` and ``most`` are factors of what is expected."""
    assert profile.series is not None
    step_ms = profile.series.mean_ms
    saved, low, high = (min(factor * saved_ms, step_ms, limit_ms) for factor in (1.0, least, most))
    return Saving(step_ms=step_ms, saved_ms=saved, least_ms=low, most_ms=high, method=f"monitor: {method}")


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

    By the share of the traced steps in which the device has nothing to do because the host has launched nothing: in
    each step on the rank where it is longest, as the others wait for it. What is ``rare`` may have missed the trace: it
    can also account for what the mean step has over the median one.
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
