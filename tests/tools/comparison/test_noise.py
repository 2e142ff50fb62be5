"""The interval of a change of the mean step holds the true change as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.recorded_runs import records_of, step_rows, untraced_profile
from tests.synthetic_runs import host_bound
from tools.comparison.compare import compare
from tools.comparison.noise import ChangeInterval, change_interval, student_quantile
from tools.views.profile import Profile


def run_of(walls_ms: NDArray[np.float64]) -> Profile:
    return untraced_profile(records_of([step_rows(0, list(walls_ms))]))


def interval(before: Profile, after: Profile) -> ChangeInterval | None:
    return change_interval(before, after, compare(before, after))


@pytest.mark.parametrize(("freedom", "published"), [(3, 3.182), (4, 2.776), (9, 2.262), (29, 2.045), (np.inf, 1.960)])
def test_the_quantile_is_that_of_the_tables(freedom: float, published: float) -> None:
    assert student_quantile(freedom) == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize("kept", [0.0, 0.6])
def test_nineteen_of_twenty_intervals_hold_the_change_also_of_steps_that_resemble_their_neighbours(kept: float) -> None:
    random = np.random.default_rng(7)

    def steps(mean_ms: float) -> NDArray[np.float64]:
        noise = random.normal(0.0, 1.0, 400)
        for place in range(1, len(noise)):
            noise[place] += kept * noise[place - 1]
        return mean_ms + noise

    found = [interval(run_of(steps(100.0)), run_of(steps(104.0))) for _ in range(60)]
    held = [each for each in found if each is not None and each.low_pct <= 4.0 <= each.high_pct]
    assert len(found) == 60
    assert len(held) >= 51
    assert not all(each is not None and each.low_pct <= 0.0 for each in found)


def test_steps_without_any_spread_give_the_change_itself() -> None:
    found = interval(host_bound(10.0), host_bound(12.0))
    assert found is not None
    assert (found.change_pct, found.low_pct, found.high_pct) == pytest.approx((20.0, 20.0, 20.0))
