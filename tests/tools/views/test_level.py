"""Which stretch of a run that changed on its way the traced steps are held against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hermes_agent.report.opening import opening
from tests.recorded_runs import START_NS, recorded_profile, records_of, step_rows, traced_rank
from tests.synthetic import run_of
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.run.recorded.records import MonitorRecords
from tools.views.profile import Profile
from tools.views.steps.levels import Level, level_at
from tools.views.steps.shape import StepSeries


def noisy(*levels: tuple[int, float]) -> StepSeries:
    rng = np.random.default_rng(4)
    ms = np.concatenate([rng.normal(level, 0.1 * level, count) for count, level in levels])
    return StepSeries(np.arange(len(ms)), ms)


@pytest.mark.parametrize(
    ("step", "level"),
    [
        pytest.param(50, Level(None, 100), id="before the first change"),
        pytest.param(150, Level(100, 200), id="between two"),
        pytest.param(199, Level(100, 200), id="right before the second one"),
        pytest.param(205, Level(200, None), id="right after it"),
        pytest.param(350, Level(200, None), id="long after it"),
    ],
)
def test_the_level_reaches_from_the_last_change_before_the_step_to_the_next_one(step: int, level: Level) -> None:
    found = level_at(noisy((100, 10.0), (100, 40.0), (200, 15.0)), step)
    for seen, true in ((found.since, level.since), (found.until, level.until)):
        assert (seen is None) == (true is None)
        assert seen is None or true is None or abs(seen - true) <= 2


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(noisy((400, 20.0)), id="one level"),
        pytest.param(noisy((200, 20.0), (200, 21.0)), id="another level by less than a tenth"),
        pytest.param(StepSeries(np.arange(400), np.linspace(20.0, 40.0, 400)), id="a drift"),
        pytest.param(StepSeries(np.arange(400), np.where(np.arange(400) % 10 == 9, 200.0, 20.0)), id="a rhythm"),
        pytest.param(noisy((385, 20.0), (15, 80.0)), id="too few steps since the change"),
    ],
)
def test_without_a_clear_change_of_level_it_is_the_whole_run(steps: StepSeries) -> None:
    assert level_at(steps, 395).whole


def changed(captured: range, steps: int = 160) -> MonitorRecords:
    """Two ranks; from step 80 on the data of rank 1 come late. Rank 1 is profiled, which makes its steps longer."""
    late = np.arange(steps) >= 80
    profiled = np.isin(np.arange(steps), captured)
    written = np.arange(steps) == captured.stop
    walls = np.where(written, 900.0, np.where(profiled, 70.0, np.where(late, 34.0, 11.0)))
    waits = np.where(late, 24.0, 0.3)
    flags = {"captured": list(profiled | written), "written": list(written)}
    return records_of(
        [
            step_rows(0, list(walls), data_wait_ms=0.3, own_ms=8.0),
            step_rows(1, list(walls), data_wait_ms=list(waits), own_ms=list(waits + 8.0), **flags),
        ]
    )


def test_the_series_is_of_the_level_of_the_traced_steps_and_the_text_says_so() -> None:
    profile = recorded_profile(changed(range(90, 93)))
    series = profile.series
    assert series is not None
    assert series.level == Level(80, None)
    assert series.median_ms == 34.0
    assert measure(profile, "series_part_ms", part="data_wait", rank=1).value == pytest.approx(24.0)
    assert (len(series.whole.of(1)), series.whole.median_ms) == (144, 34.0)
    (said,) = (each for each in opening(profile, ranking(profile)) if "unprofiled steps take" in each.template)
    assert said.template.startswith("Since step 80, where the run changed, unprofiled steps take {0}")
    assert [fact.value for fact in said.facts] == pytest.approx([34.0, 34.0, 34.0])


def test_the_change_itself_is_reported_of_the_whole_run() -> None:
    profile = recorded_profile(changed(range(90, 93)))
    assert measure(profile, "series_shift_pct").value == pytest.approx(100.0 * (34.0 / 11.0 - 1.0))


def test_steps_traced_before_the_change_are_held_against_those_before_it() -> None:
    series = recorded_profile(changed(range(40, 43))).series
    assert series is not None
    assert (series.level, series.median_ms) == (Level(None, 80), 11.0)


def test_with_few_steps_since_the_change_the_series_stays_whole() -> None:
    series = recorded_profile(changed(range(90, 93), steps=98)).series
    assert series is not None
    assert series.level.whole
    assert series.numbers()[0] == 10


def test_the_writing_of_a_trace_counts_on_no_rank_and_is_no_profiled_step() -> None:
    profile = recorded_profile(changed(range(90, 93)))
    assert profile.series is not None
    assert profile.series.usual["wall_ms"].max() == 34.0
    assert list(profile.series.captured["step"]) == [90, 91, 92]
    assert measure(profile, "profiled_excess_pct").value == pytest.approx(100.0 * (70.0 / 34.0 - 1.0))


def test_only_the_steps_of_the_trace_that_was_read_are_compared() -> None:
    rows = step_rows(0, [50.0] * 60, captured=[step in (20, 21, 22, 40, 41, 42) for step in range(60)])
    rows.loc[rows["step"].isin([20, 21, 22]), "wall_ms"] = 400.0
    rows["end_unix_ns"] = START_NS + (rows["wall_ms"].cumsum() * 1e6).astype("int64")
    begin = int(rows["end_unix_ns"][39])
    run = replace(run_of(traced_rank(0)), records=records_of([rows]), origin_unix_ns=begin)
    series = Profile(run).series
    assert series is not None
    assert list(series.captured["step"]) == [40, 41, 42]
    assert not {19, 20, 21, 22, 23, 39, 43} & set(series.numbers())


def test_steps_between_the_traced_ones_are_not_profiled() -> None:
    rows = step_rows(0, [50.0] * 60)
    rank = traced_rank(0)
    for step in range(3):
        rank.step(2000 + step, 1_000_000 + step * 50_000, 1_050_000 + step * 50_000)
    run = replace(run_of(rank), records=records_of([rows]), origin_unix_ns=int(rows["end_unix_ns"][9]))
    series = Profile(run).series
    assert series is not None
    assert list(series.captured["step"]) == [10, 11, 12, 30, 31, 32]


@pytest.mark.parametrize("enough", [True, False])
def test_figures_of_the_machine_are_of_the_whole_run_where_too_little_was_sampled_since(enough: bool) -> None:
    records = changed(range(90, 93))
    if not enough:
        early = records.system["unix_ns"] < START_NS + 800_000_000
        records = replace(records, system=records.system[early].reset_index(drop=True))
    profile = recorded_profile(records)
    assert profile.host_records is not None
    assert profile.series is not None
    assert (profile.host_records.sampled is profile.series) == enough
    whole = " ".join(each.template for each in opening(profile, ranking(profile)))
    assert ("their figures cover the whole run" in whole) != enough
    assert measure(profile, "counter_per_second", rank=0, field="minor_faults").value == pytest.approx(10.0)
