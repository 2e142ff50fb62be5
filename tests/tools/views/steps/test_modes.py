"""Step times that fall into groups, and which steps each holds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tools.knowledge.thresholds import Thresholds
from tools.views.steps.modes import Mode, modes_of, steps_text
from tools.views.steps.shape import StepSeries


def groups(ms: list[float] | NDArray[np.float64]) -> tuple[Mode, ...]:
    limits = Thresholds()
    series = StepSeries(np.arange(len(ms), dtype=np.int64), np.asarray(ms, dtype=np.float64))
    return modes_of(series, limits["fluctuation_pct"], limits["step_groups_by_chance"])


def test_six_steps_in_turn_are_two_groups() -> None:
    shorter, longer = groups([60, 829, 61, 835, 59, 820])
    assert (shorter.steps, longer.steps) == ((0, 2, 4), (1, 3, 5))
    assert (shorter.median_ms, longer.median_ms) == (60.0, 829.0)


def test_a_spike_hides_no_groups_and_belongs_to_none() -> None:
    assert [each.steps for each in groups([60, 829, 61, 835, 4000, 820, 62, 840])] == [(0, 2, 6), (1, 3, 5, 7)]


def test_three_levels_are_three_groups() -> None:
    found = groups([100, 101, 99, 102, 98, 200, 203, 199, 201, 202, 400, 402, 399, 401, 403])
    assert [each.median_ms for each in found] == [100.0, 201.0, 401.0]


def test_a_random_tenth_is_a_group() -> None:
    long = [4, 5, 19, 33, 38]
    ms = np.where(np.isin(np.arange(50), long), 330.0, 150.0) + np.linspace(0, 5, 50)
    assert groups(ms)[1].steps == tuple(long)


@pytest.mark.parametrize(
    "ms",
    [
        pytest.param([60, 829, 61, 835, 59], id="too few"),
        pytest.param([100, 101, 102, 103, 104, 105], id="within the limit"),
        pytest.param([100, 120, 140, 160, 180, 200, 220], id="spread evenly"),
        pytest.param([100] * 9 + [300], id="one spike"),
        pytest.param([100] * 8, id="constant"),
    ],
)
def test_other_series_form_one_group(ms: list[float]) -> None:
    assert groups(ms) == ()


@pytest.mark.parametrize("count", [6, 12, 20, 50])
@pytest.mark.parametrize("noise", ["normal", "exponential", "lognormal", "pareto"])
def test_chance_hardly_makes_groups(noise: str, count: int) -> None:
    random = np.random.default_rng(3)
    size = (300, count)
    drawn = {
        "normal": random.normal(100.0, 15.0, size),
        "exponential": 100.0 + random.exponential(30.0, size),
        "lognormal": 100.0 * random.lognormal(0.0, 0.5, size),
        "pareto": 100.0 * (1.0 + random.pareto(3.0, size)),
    }
    assert sum(bool(groups(series)) for series in drawn[noise]) <= 0.05 * 300


def test_few_shorter_steps_make_no_group_of_the_usual_ones() -> None:
    assert groups([80, 81, 60, 80, 79, 80, 82, 80, 60, 80, 81, 80]) == ()


@pytest.mark.parametrize(
    ("present", "text"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7, 8], "every step"),
        ([1, 3, 5, 7, 9], "every 2nd step"),
        ([6, 7, 8, 9], "every step from 6 on"),
        ([0, 1, 2], "every step up to 2"),
        ([4], "step 4 (1 of 10)"),
        ([1, 2, 7], "3 of 10 steps"),
        ([2, 4, 6], "3 of 10 steps"),
    ],
)
def test_steps_in_words(present: list[int], text: str) -> None:
    assert steps_text(present, range(10)) == text
