"""How far intervals have to reach, from pairs whose places are known."""

from __future__ import annotations

import pytest

from evals.prediction_reach import Ending, covered, held, reaches


def pairs(origin: str, *measured_pct: float) -> list[Ending]:
    """Predictions of 40 % between 20 and 50 % with these measured gains."""
    return [Ending(origin, "replay", 40.0, 50.0, 20.0, each) for each in measured_pct]


def test_a_gain_lies_on_the_way_to_one_of_the_views() -> None:
    assert [one.place for one in pairs("lab", 40.0, 45.0, 50.0, 60.0, 30.0, 20.0)] == [0.0, 0.5, 1.0, 2.0, -0.5, -1.0]


def test_the_shortest_interval_leaves_a_fifth_of_the_gains_out() -> None:
    assert reaches(pairs("lab", 40.0, 41.0, 42.0, 38.0, 90.0)) == pytest.approx((0.2, 0.1))
    assert reaches(pairs("lab", 40.0, 41.0, 42.0, 43.0, 2.0)) == pytest.approx((0.3, 0.0))


def test_it_holds_that_many_of_every_origin() -> None:
    many, few = pairs("lab", *[40.0] * 50), pairs("others", 36.0, 36.0, 40.0)
    assert reaches(many) == (0.0, 0.0)
    assert reaches([*many, *few]) == pytest.approx((0.0, 0.2))
    assert covered(few, many) == pytest.approx(1 / 3)
    assert covered(few, []) is None


def test_the_error_of_a_prediction_widens_the_interval_whatever_the_reach() -> None:
    near = Ending("lab", "replay", 40.0, 50.0, 20.0, 43.0, error_pct=4.0)
    assert near.place == 0.0
    assert Ending("lab", "replay", 40.0, 50.0, 20.0, 49.0, error_pct=4.0).place == pytest.approx(0.5)
    assert Ending("lab", "replay", 40.0, 50.0, 20.0, 26.0, error_pct=4.0).place == pytest.approx(-0.5)
    assert held([near], {"replay": (0.0, 0.0)}) == 1.0
