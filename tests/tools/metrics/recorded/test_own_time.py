"""The ranks' own times side by side."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.recorded_runs import records_of, step_rows, untraced_profile
from tools.metrics.recorded.own_time import data_wait_cost, lateness, least_data_wait_ms
from tools.views.steps.series import RunSeries

WALL_MS = 100.0


def series_of(*ranks: dict[str, Any]) -> RunSeries:
    steps = [step_rows(rank, [WALL_MS] * 30, **columns) for rank, columns in enumerate(ranks)]
    series = untraced_profile(records_of(steps)).series
    assert series is not None
    return series


def mean(values: pd.Series[float] | None) -> float:
    assert values is not None
    return float(values.mean())


@pytest.mark.parametrize(
    ("other_own_ms", "cost_ms"),
    [
        pytest.param(40.0, 50.0, id="the waiting rank is still the last one without its wait"),
        pytest.param(70.0, 20.0, id="another rank takes over"),
        pytest.param(95.0, 0.0, id="another rank is later anyhow"),
    ],
)
def test_a_data_wait_costs_what_the_longest_own_time_loses_with_it(other_own_ms: float, cost_ms: float) -> None:
    series = series_of({"own_ms": 90.0, "data_wait_ms": 50.0}, {"own_ms": other_own_ms})
    assert mean(data_wait_cost(series)) == pytest.approx(cost_ms)


def test_without_own_times_the_cost_lies_between_what_all_ranks_wait_and_the_longest_wait() -> None:
    series = series_of({"data_wait_ms": 30.0}, {"data_wait_ms": 10.0})
    assert mean(data_wait_cost(series)) == pytest.approx(30.0)
    assert least_data_wait_ms(series) == pytest.approx(10.0)


def test_the_wait_of_a_rank_alone_is_the_cost_and_so_is_none_that_own_times_tell() -> None:
    assert least_data_wait_ms(series_of({"data_wait_ms": 30.0})) is None
    assert least_data_wait_ms(series_of({"own_ms": 50.0, "data_wait_ms": 30.0}, {"own_ms": 50.0})) is None


def test_how_much_longer_a_rank_takes_is_told_of_the_others_whole_own_time() -> None:
    late = lateness(series_of({"own_ms": 50.0, "data_wait_ms": 50.0}, {"own_ms": 55.0, "data_wait_ms": 50.0}), None)
    assert late is not None
    assert late.excess_pct == pytest.approx(10.0)


def test_a_rank_is_late_by_what_has_no_name() -> None:
    series = series_of({"own_ms": 50.0}, {"own_ms": 90.0, "data_wait_ms": 10.0, "gc_ms": 5.0})
    late = lateness(series, None)
    assert late is not None
    assert late.rank == 1
    assert late.mean_ms == pytest.approx(25.0)
    assert late.excess_pct == pytest.approx(50.0)


def test_a_rank_that_is_later_in_half_of_the_steps_is_not_steadily_late() -> None:
    turns = [90.0 if step % 2 else 50.0 for step in range(30)]
    late = lateness(series_of({"own_ms": turns}, {"own_ms": turns[::-1]}), None)
    assert late is not None
    assert late.steadiness < 3.0
    assert late.mean_ms < 5.0


def test_one_rank_and_ranks_without_own_time_have_no_late_one() -> None:
    assert lateness(series_of({"own_ms": 50.0}), None) is None
    assert lateness(series_of({}, {}), None) is None
