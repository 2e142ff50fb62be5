"""Step times and speedup with their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from evals.lab.record import compare


def test_constant_steps_give_an_interval_of_no_width() -> None:
    comparison = compare([[200.0] * 30, [200.0] * 30], [[100.0] * 30])
    assert (comparison.before_ms.low, comparison.before_ms.median, comparison.before_ms.high) == (200.0, 200.0, 200.0)
    assert (comparison.speedup.low, comparison.speedup.median, comparison.speedup.high) == (2.0, 2.0, 2.0)


def test_the_interval_narrows_with_more_steps() -> None:
    rng = np.random.default_rng(1)
    few, many = ([list(rng.normal(100, 10, count))] for count in (20, 2000))
    after = [[50.0] * 5]
    narrow, wide = compare(many, after).before_ms, compare(few, after).before_ms
    assert narrow.high - narrow.low < (wide.high - wide.low) / 3
    assert narrow.low < 100 < narrow.high


def test_an_outlier_hardly_moves_the_step_time() -> None:
    assert compare([[100.0] * 30 + [5000.0]], [[100.0] * 31]).speedup.median == pytest.approx(1.0)


def test_the_mean_sees_what_hits_few_steps_and_the_median_does_not() -> None:
    periodic, even = [[50.0] * 9 + [150.0]] * 2, [[50.0] * 10] * 2
    assert compare(periodic, even, "mean").saving_pct.median == pytest.approx(100 / 6, abs=0.001)
    assert compare(periodic, even, "median").saving_pct.median == 0.0
