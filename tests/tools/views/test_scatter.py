"""Student's quantile and the lower end of the interval of a mean are those of the tables."""

from __future__ import annotations

from math import pi, sqrt, tan

import numpy as np
import pytest

from tools.views.scatter import least_mean, student_quantile


@pytest.mark.parametrize(
    ("freedom", "published"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (29, 2.045), (120, 1.980), (np.inf, 1.960)],
)
def test_the_quantile_is_that_of_the_tables(freedom: float, published: float) -> None:
    assert student_quantile(freedom) == pytest.approx(published, abs=5.1e-4)


def test_the_quantile_of_one_and_two_degrees_of_freedom_is_that_of_their_closed_forms() -> None:
    """Cauchy: tan(0.95 pi / 2); two degrees: p = t / sqrt(2 + t^2)."""
    assert student_quantile(1.0) == pytest.approx(tan(0.95 * pi / 2), rel=1e-9)
    assert student_quantile(2.0) == pytest.approx(0.95 * sqrt(2 / (1 - 0.95**2)), rel=1e-9)


def test_the_quantile_falls_with_the_degrees_of_freedom_to_the_normal_one() -> None:
    found = [student_quantile(each) for each in (1.0, 1.5, 2.0, 7.3, 1e3, 1e5, 9.9e5, 1e6)]
    assert found == sorted(found, reverse=True)
    assert found[-2] == pytest.approx(found[-1], rel=3e-6)


def test_nineteen_of_twenty_intervals_of_two_values_hold_their_mean() -> None:
    """The lower end lies above the true mean in one case of 40."""
    values = np.random.default_rng(3).normal(5.0, 2.0, (20_000, 2))
    above = sum(least_mean(each) > 5.0 for each in values)
    assert above == pytest.approx(20_000 / 40, abs=5 * sqrt(20_000 / 40))
