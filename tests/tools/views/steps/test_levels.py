"""Series of step times that lie at three or more levels."""

from __future__ import annotations

import numpy as np
import pytest

from tools.views.steps.levels import Plateau, plateaus
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
