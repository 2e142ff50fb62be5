"""The series of unprofiled steps, and what is sampled next to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.recorded_runs import environment_of, recorded_profile, records_of, step_rows, traced_rank
from tests.synthetic import run_of
from tools.analyzers.steps.step_time import unprofiled
from tools.errors import UsageError
from tools.metrics.recorded.series import profiled_excess_pct, stall_cost_ms, stall_excess_ms
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.steps.recorded import series_of
from tools.views.steps.shape import StepSeries, periodic_stalls


def test_profiled_steps_their_neighbours_and_the_first_ones_are_left_out() -> None:
    captured = [step in (20, 21) for step in range(40)]
    walls = [500.0 if step in (0, 19, 20, 21, 22) else 50.0 for step in range(40)]
    profile = recorded_profile(records_of([step_rows(0, walls, captured=captured)]))
    assert profile.series is not None
    assert profile.series.numbers() == (*range(4, 19), *range(23, 40))
    assert profile.series.mean_ms == 50.0
    assert measure(profile, "profiled_excess_pct").value == pytest.approx(900.0)


def test_profiled_and_other_steps_are_compared_by_the_slowest_rank_of_each() -> None:
    """Ranks take turns: 60 in each step by the slowest, 66 in a profiled one, although each rank's median is 50."""
    profiled = range(20, 23)

    def walls(rank: int) -> list[float]:
        return [66.0 if step in profiled else 60.0 if step % 3 == rank else 50.0 for step in range(60)]

    captured = [step in profiled for step in range(60)]
    profile = recorded_profile(records_of([step_rows(rank, walls(rank), captured=captured) for rank in range(3)]))
    fact = measure(profile, "profiled_excess_pct")
    assert fact.value == pytest.approx(10.0)
    assert (fact.ranks, fact.steps) == ((0, 1, 2), tuple(profiled))
    rows = profiled_excess_pct(profile).rows()
    longest = rows.groupby(["profiled", "step"])["wall_ms"].max().groupby("profiled").median()
    assert longest.to_dict() == {"no": 60.0, "yes": 66.0}
    said = [sentence.template for sentence in unprofiled(profile)]
    assert (
        "The median profiled step took {0} longer than the median of the others, by the slowest rank of each." in said
    )


def test_a_rank_whose_profiled_steps_are_not_recorded_is_left_out_on_both_sides() -> None:
    captured = [step in range(20, 23) for step in range(60)]
    own = [55.0 if taken else 50.0 for taken in captured]
    profile = recorded_profile(records_of([step_rows(0, own, captured=captured), step_rows(1, [80.0] * 60)]))
    fact = measure(profile, "profiled_excess_pct")
    assert fact.value == pytest.approx(10.0)
    assert fact.ranks == (0,)


def test_the_slowest_rank_makes_the_series() -> None:
    slow = [60.0 if step % 2 else 50.0 for step in range(40)]
    profile = recorded_profile(records_of([step_rows(0, [50.0] * 40), step_rows(1, slow)]))
    assert measure(profile, "series_step_ms").value == pytest.approx(55.0)
    assert measure(profile, "series_step_ms", rank=0).value == 50.0
    fact = measure(profile, "series_step_ms", statistic="max")
    assert (fact.value, fact.ranks) == (60.0, (1,))


def test_a_step_log_serves_where_there_is_no_monitor() -> None:
    run = run_of(traced_rank(0))
    walls = [30.0] * 15 + [50.5, 49.0, 50.0] + [30.0] * 22
    series = series_of(replace(run, step_log=log_of(walls)))
    assert series is not None
    assert series.origin == "step_log"
    assert sorted(series.captured["step"]) == [15, 16, 17]  # by their durations: the profiler calls them 1000 to 1002
    assert not {14, 18} & set(series.numbers())
    assert series.median_ms == 30.0


@pytest.mark.parametrize(
    "walls",
    [
        pytest.param([50.0] * 40, id="all steps fit"),
        pytest.param([30.0] * 1000 + [80.0] * 10, id="none fits, whatever its number"),
        pytest.param([30.0] * 10 + [50.0] * 3 + [30.0] * 10 + [50.0] * 3 + [30.0] * 10, id="two places fit"),
        pytest.param([50.0, 50.0] + [30.0] * 20, id="not all of them fit"),
    ],
)
def test_where_durations_do_not_tell_which_steps_were_profiled_none_is_taken(walls: list[float]) -> None:
    series = series_of(replace(run_of(traced_rank(0)), step_log=log_of(walls)))
    assert series is not None
    assert series.captured.empty


def test_choosing_traced_steps_leaves_the_others_profiled() -> None:
    walls = [30.0] * 15 + [50.5, 49.0, 50.0] + [30.0] * 22
    whole = replace(run_of(traced_rank(0)), step_log=log_of(walls))
    for run in (whole.select(steps=(1001, 1001)), whole.select(steps=(1000, 1001)).select(steps=(1001, 1001))):
        of_log = series_of(run)
        assert of_log is not None
        assert list(of_log.captured["step"]) == [16]
        assert of_log.numbers() == tuple(step for step in range(4, 40) if step not in (14, 15, 16, 17, 18))


def test_choosing_traced_steps_or_ranks_leaves_the_others_of_the_records_profiled() -> None:
    steps = [step_rows(rank, [30.0] * 15 + [50.0] * 3 + [30.0] * 22) for rank in (0, 1)]
    ends = steps[0]["end_unix_ns"]
    run = run_of(traced_rank(0), traced_rank(1))
    begins = int(ends[14]) - run.ranks[0].steps[0].start_ns  # the script profiled its steps 15 to 17 by itself
    lengths = replace(run, records=records_of(steps), origin_unix_ns=begins)
    chosen = [series_of(each) for each in (lengths, lengths.select(steps=(1001, 1001)), lengths.select(ranks=[1]))]
    first, *others = chosen
    assert first is not None
    assert len(first.captured) == 2 * 3
    for series in others:
        assert series is not None
        assert series.numbers() == first.numbers()
        assert series.mean_ms == first.mean_ms == 30.0


def log_of(walls: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"rank": 0, "step": range(len(walls)), "wall_ms": walls})


def test_step_numbers_that_restart_are_counted_on_with_a_note() -> None:
    steps = step_rows(0, [50.0] * 20 + [60.0] * 20)
    steps["step"] = [*range(20), *range(20)]
    profile = recorded_profile(records_of([steps], {0: {"minor_faults": 400.0}}))
    assert profile.series is not None
    assert profile.series.numbers() == tuple(range(4, 40))
    assert profile.series.of(0)["begin_unix_ns"].is_monotonic_increasing
    assert len(profile.series.notes) == 1
    assert "restart" in profile.series.notes[0]
    assert measure(profile, "counter_per_second", rank=0, field="minor_faults").value == pytest.approx(400.0)
    log = steps[["rank", "step", "wall_ms"]]
    series = series_of(replace(run_of(traced_rank(0)), step_log=log))
    assert series is not None
    assert series.numbers()[-1] == 39


@pytest.mark.parametrize("wall", [0.0, -1.0, np.nan, np.inf, 4.3e12])
def test_steps_without_a_believable_duration_are_left_out_with_a_note(wall: float) -> None:
    steps = step_rows(0, [50.0] * 40)
    steps.loc[17, "wall_ms"] = wall
    series = recorded_profile(records_of([steps])).series
    assert series is not None
    assert series.mean_ms == 50.0
    assert series.notes == ("1 recorded steps have no believable duration and were left out",)
    assert recorded_profile(records_of([steps.assign(wall_ms=wall)])).series is None


@pytest.mark.parametrize("neighbours", [False, True])
def test_bytes_per_stall_count_neighbouring_long_steps_once(neighbours: bool) -> None:
    walls = [50.0 + (200.0 if step % 10 == 9 or (neighbours and step % 10 == 0) else 0.0) for step in range(60)]
    walls[0] = 50.0
    steps = step_rows(0, walls)
    records = records_of([steps])
    saved = steps["end_unix_ns"].to_numpy()[9::10]
    system = records.system.copy()
    system["write_bytes"] = 30e6 * np.searchsorted(saved, system["unix_ns"].to_numpy(), side="right")
    profile = recorded_profile(replace(records, system=system))
    assert measure(profile, "stall_written_bytes", rank=0).value == pytest.approx(30e6, rel=0.2)


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


def test_a_long_step_next_to_a_stall_is_part_of_it_only_where_stalls_reach_over() -> None:
    """Every tenth step is a stall; single long steps next to three of them are their own, in each next step a part."""
    ms = 50.0 + np.arange(100, dtype=np.float64) % 3 * 0.1
    ms[9::10] += 100.0
    ms[[20, 30, 98]] += 300.0
    alone = periodic_stalls(StepSeries(np.arange(100), ms), 10.0)
    assert alone is not None
    assert (alone.steps, alone.stalls) == (tuple(range(9, 100, 10)), 10)
    assert alone.excess_ms == pytest.approx(100.0, rel=0.01)
    ms[10::10] += 40.0
    over = periodic_stalls(StepSeries(np.arange(100), ms), 10.0)
    assert over is not None
    assert set(over.steps) == set(range(9, 100, 10)) | set(range(10, 100, 10))


def test_a_stall_that_shows_in_the_step_after_the_due_one_is_counted() -> None:
    ms = 50.0 + np.arange(100, dtype=np.float64) % 3 * 0.1
    ms[9::10] += 100.0
    ms[[49, 50]] = ms[[50, 49]]
    found = periodic_stalls(StepSeries(np.arange(100), ms), 10.0)
    assert found is not None
    assert set(found.steps) == (set(range(9, 100, 10)) - {49}) | {50}
    assert found.cost_ms == pytest.approx(10.0, rel=0.01)


def test_long_steps_at_random_distances_are_none() -> None:
    rng = np.random.default_rng(2)
    called = 0
    for _ in range(100):
        ms = 50.0 + rng.normal(0, 1.0, 60)
        ms[rng.choice(60, 5, replace=False)] += 100.0
        called += periodic_stalls(StepSeries(np.arange(60), ms), 10.0) is not None
    assert called <= 10


def test_three_long_steps_whose_distances_have_a_common_divisor_are_no_rhythm() -> None:
    """Steps 15, 20 and 50: of the eight places at that distance three are long."""
    ms = 50.0 + np.arange(60, dtype=np.float64) % 3 * 0.1
    ms[[15, 20, 50]] += 100.0
    assert periodic_stalls(StepSeries(np.arange(60), ms), 10.0) is None
    ms[[25, 35]] += 100.0
    assert periodic_stalls(StepSeries(np.arange(60), ms), 10.0) is not None


def test_a_long_step_does_not_make_a_jump_of_a_slow_start() -> None:
    """It settles for a third of the run, and one step is 20 times as long: two levels fit worse than one line."""
    ms = np.asarray(100.0 + 50.0 * np.exp(-np.arange(45) / 12.0), dtype=np.float64)
    settling = StepSeries(np.arange(45), ms)
    assert not settling.jumps()
    ms = ms.copy()
    ms[22] = 2000.0
    assert not StepSeries(np.arange(45), ms).jumps()
    assert StepSeries(np.arange(45), np.where(np.arange(45) < 20, 100.0, 150.0) + np.arange(45) % 3).jumps()


@pytest.mark.parametrize("count", [10**400, -1])
def test_a_count_that_no_heap_can_hold_is_not_told(count: int) -> None:
    records = records_of([step_rows(0, [50.0] * 40)], None, None, [environment_of(0, gc_tracked_objects=count)])
    with pytest.raises(UsageError, match="do not count"):
        measure(recorded_profile(records), "tracked_objects", rank=0)


def test_the_rows_behind_the_cost_of_stalls_sum_to_it() -> None:
    """Every 5th of 60 steps takes 100 ms more, one of them not: the step after it takes 60 ms more."""
    walls = [
        50.0 + (100.0 if step % 5 == 0 and step != 30 else 0.0) + (60.0 if step == 31 else 0.0) for step in range(60)
    ]
    profile = recorded_profile(records_of([step_rows(0, walls)]))
    assert profile.series is not None
    steps = len(profile.series.numbers())
    cost, excess = stall_cost_ms(profile, rank=0), stall_excess_ms(profile, rank=0)
    rows = cost.rows()
    due = [step for step in profile.series.numbers() if step % 5 == 0]
    assert rows["step"].tolist() == sorted([*due, 31])
    assert cost.value == pytest.approx(rows["excess_ms"].sum() / steps)
    assert excess.value == pytest.approx(rows["excess_ms"].sum() / len(due))
    assert (rows["wall_ms"] - rows["usual_ms"] - rows["excess_ms"]).abs().max() < 1e-9
    assert cost.value == pytest.approx((100.0 * (len(due) - 1) + 60.0) / steps)
    assert f"over {steps} steps" in cost.selector
