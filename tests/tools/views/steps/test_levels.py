"""Series of step times that lie at three or more levels."""

from __future__ import annotations

import numpy as np
import pytest

from tools.views.steps.levels import Plateau, clear_change, level_cost_ms, plateaus, steady_trend, stretches
from tools.views.steps.shape import StepSeries


def series(*levels: tuple[int, float], noise: float = 0.02) -> StepSeries:
    rng = np.random.default_rng(7)
    ms = np.concatenate([rng.normal(level, noise * level, count) for count, level in levels])
    return StepSeries(np.arange(len(ms)), ms)


def test_a_staircase_is_told_by_its_levels_and_their_first_steps() -> None:
    found = plateaus(series((100, 33.0), (120, 62.0), (90, 91.0)))
    assert [(each.first, each.last) for each in found] == [(0, 99), (100, 219), (220, 309)]
    assert [each.ms for each in found] == pytest.approx([33.0, 62.0, 91.0], rel=0.01)


def test_levels_may_rise_and_fall() -> None:
    assert [each.first for each in plateaus(series((80, 20.0), (60, 40.0), (100, 26.0)))] == [0, 80, 140]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", ["line", "root", "square", "even", "walk", "two levels"])
def test_other_shapes_have_no_three_levels(shape: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    place = np.linspace(0.0, 1.0, 100 + 90 * seed)
    base = {
        "line": 20 + 20 * place,
        "root": 20 + 20 * np.sqrt(place),
        "square": 20 + 20 * place**2,
        "even": np.full(len(place), 20.0),
        "walk": 20 + np.cumsum(rng.normal(0, 0.05, len(place))),
        "two levels": np.where(place < 0.4, 20.0, 35.0),
    }[shape]
    assert plateaus(StepSeries(np.arange(len(place)), base + rng.normal(0.0, 1.0, len(place)))) == ()


def test_short_stretches_are_no_levels() -> None:
    assert plateaus(series((9, 20.0), (9, 40.0), (9, 60.0))) == ()


def test_equal_neighbours_are_one_level() -> None:
    levels = plateaus(series((60, 20.0), (60, 20.4), (60, 40.0), (60, 60.0)))
    assert [type(each) for each in levels] == [Plateau] * 3
    assert levels[0].last == 119


def test_levels_of_ten_steps_are_levels() -> None:
    """40 ms for 12 steps, 70 for 14 and 95 for 30, each with a few per cent of jitter: the median of the first two, 64,
    is of neither."""
    jitter = np.tile([-2.0, 1.0, 0.0, 2.0, -1.0], 12)[:56]
    walls = np.repeat([40.0, 70.0, 95.0], [12, 14, 30]) + jitter
    found = plateaus(StepSeries(np.arange(1, 57), walls))
    assert [(each.first, each.last) for each in found] == [(1, 12), (13, 26), (27, 56)]
    assert [each.ms for each in found] == pytest.approx([40.0, 70.0, 95.0], abs=1.0)


def test_levels_that_come_back_are_no_single_change() -> None:
    """By Pettitt's test alone the steps would be longer from 210 on."""
    steps = series((60, 37.0), (150, 20.0), (100, 37.0), (60, 20.0), (250, 39.0))
    change = steps.change_point()
    assert change is not None
    assert change.after_ms > 1.5 * change.before_ms
    assert clear_change(steps, 10.0) is None
    assert [round(each.usual_ms) for each in stretches(steps)] == [37, 20, 37, 20, 39]
    assert steady_trend(steps, 10.0) is None


def test_a_stretch_in_the_middle_of_a_level_is_found() -> None:
    found = plateaus(series((600, 30.0), (80, 55.0), (700, 30.0)))
    assert [each.first for each in found] == pytest.approx([0, 600, 680], abs=1)


def test_one_change_stays_one() -> None:
    change = clear_change(series((200, 30.0), (120, 45.0)), 10.0)
    assert change is not None
    assert change.step == 200


def test_a_slope_that_levels_off_is_a_drift_and_no_change() -> None:
    rng = np.random.default_rng(3)
    ms = np.minimum(20 + 0.05 * np.arange(300), 29.0) + rng.normal(0.0, 0.3, 300)
    steps = StepSeries(np.arange(300), ms)
    trend = steady_trend(steps, 10.0)
    assert clear_change(steps, 10.0) is None
    assert trend is not None
    assert trend.total_pct > 20.0


def test_a_step_between_the_levels_belongs_to_the_nearer_one() -> None:
    ms = np.array([1.7] * 20 + [2.7] + [35.0] * 12) + np.tile([0.0, 0.02, -0.02], 11)
    change = StepSeries(np.arange(33), ms).change_point()
    assert change is not None
    assert change.step == 21


def test_the_cost_of_a_level_counts_each_value_for_its_steps() -> None:
    """Twelve values of ten steps each at 2 ms and ten of one step at 32 ms: 30 ms more in 10 of 130 steps; of a value
    that is back at 4 ms only 2 ms count."""
    ms, weights = np.array([2.0] * 12 + [32.0] * 10), np.array([10.0] * 12 + [1.0] * 10)
    long = np.arange(22) >= 12
    assert level_cost_ms(ms, long, weights) == pytest.approx(300.0 / 130.0)
    ms[-1] = 4.0
    assert level_cost_ms(ms, long, weights) == pytest.approx((9 * 30.0 + 2.0) / 130.0)


@pytest.mark.parametrize("seed", range(6))
def test_noise_has_one_stretch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heavy = 30.0 * np.exp(rng.standard_t(2, 120 * (seed + 1)) * 0.15)
    assert len(stretches(StepSeries(np.arange(len(heavy)), heavy))) == 1
