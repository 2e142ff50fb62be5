"""The ranks' own times side by side, by the series: who takes longer by itself, and how much of that has a name.

Inside one group all ranks should take the same time, so the one that takes longest by itself is the suspect (Hermes,
USENIX ATC'25, the monitor's second test); the others wait for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.metrics.recorded.series import run_series
from tools.views.host.records import HostRecords
from tools.views.profile import Profile, memoized
from tools.views.steps.series import RunSeries

LEAST_STEPS = 5
NAMED = ("data_wait_ms", "gc_ms")  # parts of a rank's own time that are causes of their own


@dataclass(frozen=True, eq=False)
class Lateness:
    """Excess of own time over the other ranks' median by step, ``cost_ms`` is what steps lose to it.

    The excess is that without named parts, but no more than that with them: a rank that takes as long as the others
    holds nobody up, whatever else they do meanwhile.
    """

    rank: int
    others_ms: pd.Series[float]  # the median of the others' whole own time, by step
    excess_ms: pd.Series[float]
    cost_ms: pd.Series[float]

    @property
    def excess_pct(self) -> float:
        """The mean excess, of the others' whole own time: what is left beyond named parts may be almost nothing."""
        return 100.0 * float(self.excess_ms.mean()) / max(float(self.others_ms.mean()), 1e-9)

    @property
    def mean_ms(self) -> float:
        """Loss of the mean step to it; no more than the mean excess, for single steps are longer by chance too."""
        return max(min(float(self.cost_ms.mean()), float(self.excess_ms.mean())), 0.0)

    @property
    def steadiness(self) -> float:
        """Mean over its standard error: small where chance may have made it."""
        error = float(self.excess_ms.std(ddof=1)) / math.sqrt(len(self.excess_ms))
        return abs(float(self.excess_ms.mean())) / error if error > 0 else float("inf")


def side_by_side(series: RunSeries, column: str) -> pd.DataFrame | None:
    """One column of the series, a row per step of all ranks, a column per rank; None where some ranks lack it."""
    if column not in series.usual:
        return None
    table = series.usual.pivot_table(index="step", columns="rank", values=column, aggfunc="mean")
    whole = table.reindex(columns=list(series.ranks)).dropna()
    return whole if len(whole) >= LEAST_STEPS else None


def data_wait_cost(series: RunSeries) -> pd.Series[float] | None:
    """Longest own time less the longest without data wait, by step; else the longest wait. None if unknown."""
    waits = side_by_side(series, "data_wait_ms")
    if waits is None:
        return None
    own = side_by_side(series, "own_ms")
    if own is None:
        return waits.max(axis=1)
    shared = own.index.intersection(waits.index)
    own, waits = own.loc[shared], waits.loc[shared]
    return (own.max(axis=1) - (own - waits).max(axis=1)).clip(lower=0.0)


def least_data_wait_ms(series: RunSeries) -> float | None:
    """The least that the mean step loses to data wait where own times are unknown: what every rank waits. Else None."""
    waits = side_by_side(series, "data_wait_ms")
    if waits is None or len(waits.columns) < 2 or side_by_side(series, "own_ms") is not None:
        return None
    return float(waits.min(axis=1).mean())


def lateness(series: RunSeries, records: HostRecords | None) -> Lateness | None:
    """The rank that takes longest by itself, beyond what has a name; None with one rank or without own times."""
    own = side_by_side(series, "own_ms")
    if own is None or len(own.columns) < 2:
        return None
    rest = own.copy()
    for part in (side_by_side(series, column) for column in NAMED):
        if part is not None:
            rest = rest - part.reindex(rest.index).fillna(0.0)
    if records is not None:
        for rank in own.columns:
            rest[rank] -= (records.share(int(rank), "training_run_delay_us") or 0.0) * own[rank]
    beyond = {
        int(rank): min((_over_others(each, int(rank)) for each in (rest, own)), key=lambda ms: float(ms.mean()))
        for rank in own.columns
    }
    late = max(beyond, key=lambda rank: float(beyond[rank].mean()))
    excess = beyond[late]
    without = own.assign(**{"late": own[late] - excess.clip(lower=0.0)}).drop(columns=late)
    return Lateness(late, own.drop(columns=late).median(axis=1), excess, own.max(axis=1) - without.max(axis=1))


def _over_others(table: pd.DataFrame, rank: int) -> pd.Series[float]:
    """A rank's column less the median of the others, by step."""
    return table[rank] - table.drop(columns=rank).median(axis=1)


@metric("ms", "step time lost to data wait", "How much does a step lose to waiting for data?")
def data_wait_cost_ms(profile: Profile) -> Measurement:
    """Loss of the mean usual step to waiting for data, see ``tools.metrics.recorded.own_time.data_wait_cost``."""
    series = run_series(profile)
    cost = data_wait_cost(series)
    if cost is None:
        raise UsageError("the series does not hold how long the ranks wait for data")
    rows = cost.rename("cost_ms").reset_index()
    selector = "data wait on the way to the longest own time of each usual step"
    return Measurement(float(cost.mean()), lambda: rows, selector, series.ranks, series.numbers(), source=series.source)


@metric("ms", "step time lost to unexplained extra time", "How much does this rank cost for no known reason?")
def unnamed_excess_ms(profile: Profile, rank: int) -> Measurement:
    """Loss of the mean usual step to the own time of a rank beyond the others', see ``Lateness.cost_ms``."""
    return _of_lateness(profile, rank, "mean_ms")


@metric("%", "unexplained extra time against the other ranks", "How much longer does this rank take?")
def unnamed_excess_pct(profile: Profile, rank: int) -> Measurement:
    """Extra own time of a rank over the median of the others, of their time, without named parts."""
    return _of_lateness(profile, rank, "excess_pct")


def _of_lateness(profile: Profile, rank: int, figure: Literal["mean_ms", "excess_pct"]) -> Measurement:
    series, late = run_series(profile), known_lateness(profile)
    if late is None or late.rank != rank:
        raise UsageError(f"the records do not show that rank {rank} itself takes longer than the others")
    rows = pd.DataFrame({"excess_ms": late.excess_ms, "cost_ms": late.cost_ms}).reset_index()
    value, selector = float(getattr(late, figure)), "own time by rank and step"
    return Measurement(value, lambda: rows, selector, series.ranks, series.numbers(rank), source=series.source)


@memoized
def known_lateness(profile: Profile) -> Lateness | None:
    """The rank that takes longest by itself; computed once per profile."""
    return None if profile.series is None else lateness(profile.series, profile.host_records)
