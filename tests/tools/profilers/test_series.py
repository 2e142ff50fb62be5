"""The series of unprofiled steps, and what is sampled beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.recorded_runs import recorded_profile, records_of, step_rows, traced_rank
from tests.synthetic import run_of
from tools.metrics.registry import measure
from tools.profilers.coarse import StepSeries
from tools.profilers.profile import Profile
from tools.profilers.series import series_of
from tools.profilers.stalls import periodic_stalls


def test_profiled_steps_their_neighbours_and_the_first_ones_are_left_out() -> None:
    captured = [step in (20, 21) for step in range(40)]
    walls = [500.0 if step in (0, 19, 20, 21, 22) else 50.0 for step in range(40)]
    profile = recorded_profile(records_of([step_rows(0, walls, captured=captured)]))
    assert profile.series is not None
    assert profile.series.numbers() == (*range(4, 19), *range(23, 40))
    assert profile.series.mean_ms == 50.0
    assert measure(profile, "profiled_excess_pct").value == pytest.approx(900.0)


def test_the_slowest_rank_makes_the_series() -> None:
    slow = [60.0 if step % 2 else 50.0 for step in range(40)]
    profile = recorded_profile(records_of([step_rows(0, [50.0] * 40), step_rows(1, slow)]))
    assert measure(profile, "series_step_ms").value == pytest.approx(55.0)
    assert measure(profile, "series_step_ms", rank=0).value == 50.0
    fact = measure(profile, "series_step_ms", statistic="max")
    assert (fact.value, fact.ranks) == (60.0, (1,))


def test_a_step_log_serves_where_there_is_no_monitor() -> None:
    run = run_of(traced_rank(0))
    log = pd.DataFrame({"rank": 0, "step": range(996, 1003), "wall_ms": 40.0})
    log = pd.concat([pd.DataFrame({"rank": 0, "step": range(970, 996), "wall_ms": 30.0}), log], ignore_index=True)
    series = series_of(replace(run, step_log=log))
    assert series is not None
    assert series.origin == "step_log"
    assert sorted(series.captured["step"]) == [1000, 1001, 1002]
    assert 999 not in series.numbers()
    assert series.median_ms == 30.0


def test_without_records_and_logs_or_with_too_few_steps_there_is_no_series() -> None:
    assert Profile(run_of(traced_rank(0))).series is None
    assert recorded_profile(records_of([step_rows(0, [50.0] * 5)])).series is None


def test_a_counter_is_a_rate_over_usual_steps_only() -> None:
    captured = [step in (20, 21) for step in range(40)]
    records = records_of([step_rows(0, [50.0] * 40, captured=captured)], {0: {"minor_faults": 400.0}})
    system = records.system.copy()
    during = (system["unix_ns"] - system["unix_ns"].iloc[0]).between(1_000_000_000, 1_100_000_000)
    system.loc[during, "minor_faults"] += 1e6  # what a profiler does is not the training's
    profile = recorded_profile(replace(records, system=system))
    assert measure(profile, "counter_per_second", rank=0, field="minor_faults").value == pytest.approx(400.0)
    assert measure(profile, "counter_per_step", rank=0, field="minor_faults").value == pytest.approx(20.0)


@pytest.mark.parametrize("period", [5, 9, 12])
def test_long_steps_at_one_distance_are_a_rhythm_with_a_cost(period: int) -> None:
    rng = np.random.default_rng(1)
    ms = 50.0 + rng.normal(0, 1.0, 60)
    ms[period::period] += 100.0
    found = periodic_stalls(StepSeries(np.arange(60), ms), 10.0)
    assert found is not None
    assert found.period == period
    assert found.cost_ms == pytest.approx(100.0 * len(found.steps) / 60, rel=0.05)


def test_long_steps_at_random_distances_are_none() -> None:
    rng = np.random.default_rng(2)
    called = 0
    for _ in range(100):
        ms = 50.0 + rng.normal(0, 1.0, 60)
        ms[rng.choice(60, 5, replace=False)] += 100.0
        called += periodic_stalls(StepSeries(np.arange(60), ms), 10.0) is not None
    assert called <= 10
