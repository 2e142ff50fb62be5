"""Figures of the ranks' own times side by side, by the series."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.series import run_series
from tools.profilers.own_time import Lateness, data_wait_cost, lateness
from tools.profilers.profile import Profile


def data_wait_cost_ms(profile: Profile) -> Measurement:
    """What the mean usual step loses to waiting for data, see ``tools.profilers.own_time.data_wait_cost``."""
    series = run_series(profile)
    cost = data_wait_cost(series)
    if cost is None:
        raise UsageError("the series does not tell how long the ranks wait for data")
    rows = cost.rename("cost_ms").reset_index()
    selector = "data wait on the way to the longest own time of each usual step"
    return Measurement(float(cost.mean()), lambda: rows, selector, series.ranks, series.numbers(), source=series.source)


def unnamed_excess_ms(profile: Profile, rank: int) -> Measurement:
    """What the mean usual step loses to the own time of a rank beyond the others', see ``Lateness.cost_ms``."""
    series = run_series(profile)
    late = known_lateness(profile)
    if late is None or late.rank != rank:
        raise UsageError(f"the records do not tell rank {rank} to take longer by itself than the others")
    rows = pd.DataFrame({"excess_ms": late.excess_ms, "cost_ms": late.cost_ms}).reset_index()
    return Measurement(
        late.mean_ms, lambda: rows, "own time by rank and step", series.ranks, series.numbers(rank),
        source=series.source,
    )  # fmt: skip


def unnamed_excess_pct(profile: Profile, rank: int) -> Measurement:
    """How much longer a rank takes than the median of the others, of what these take, without what has a name."""
    cost = unnamed_excess_ms(profile, rank)
    late = known_lateness(profile)
    assert late is not None
    return replace(cost, value=late.excess_pct)


def known_lateness(profile: Profile) -> Lateness | None:
    """The rank that takes longest by itself; computed once per profile."""
    if profile.series is None:
        return None
    series = profile.series
    return profile.memo("lateness", lambda: lateness(series, profile.host_records))


METRICS = (
    Metric("data_wait_cost_ms", "ms", "What does a step lose to waiting for data?", data_wait_cost_ms),
    Metric("unnamed_excess_ms", "ms", "What does a step lose to this rank for no named reason?", unnamed_excess_ms),
    Metric("unnamed_excess_pct", "%", "How much longer does this rank take than the others?", unnamed_excess_pct),
)
