"""What the analyzers of monitor records share: measuring what may not be recorded, and the saving of a step."""

from __future__ import annotations

from collections.abc import Mapping

from tools.errors import UsageError
from tools.findings import Argument, Check, Fact, Saving, cannot_answer
from tools.metrics.registry import measure
from tools.profilers.host_records import HostRecords
from tools.profilers.profile import Profile

NEEDED = "the training with `from hermes_agent import monitor` and `monitor.step()` after each step"


def measured(profile: Profile, metric: str, **arguments: Argument) -> Fact | None:
    """The figure, None where the records do not tell it."""
    try:
        return measure(profile, metric, **arguments)
    except UsageError:
        return None


def by_rank(profile: Profile, records: HostRecords, metric: str, **arguments: Argument) -> dict[int, Fact]:
    """The figure of every sampled rank that tells it."""
    found = {rank: measured(profile, metric, rank=rank, **arguments) for rank in records.ranks}
    return {rank: fact for rank, fact in found.items() if fact is not None}


def values(facts: Mapping[int, Fact]) -> dict[int, float]:
    """The figures alone."""
    return {rank: fact.value for rank, fact in facts.items()}


def not_recorded(name: str, what: str = "the run has no samples of the monitor") -> Check:
    """The open question of a run without records."""
    return cannot_answer(name, what, NEEDED)


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
