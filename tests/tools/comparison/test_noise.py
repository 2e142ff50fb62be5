"""The interval of a change of the mean step holds the true change as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.recorded_runs import records_of, step_rows, untraced_profile
from tests.synthetic_runs import host_bound
from tools.comparison.compare import compare
from tools.comparison.noise import change_interval, interval_of


@pytest.mark.parametrize(("kept", "steps"), [(0.0, 5), (0.0, 400), (0.6, 400)])
def test_nineteen_of_twenty_intervals_hold_the_change_also_where_steps_resemble_their_neighbours(
    kept: float, steps: int
) -> None:
    random = np.random.default_rng(7)
    noise = random.normal(0.0, 1.0, (2, 1000, steps))
    for place in range(1, steps):
        noise[:, :, place] += kept * noise[:, :, place - 1]
    found = [interval_of(100.0 + a, 104.0 + b) for a, b in zip(noise[0], noise[1], strict=True)]
    held = sum(each is not None and each.low_pct <= 4.0 <= each.high_pct for each in found)
    assert 920 <= held <= 975
    assert interval_of(noise[0, 0, :2] + 100.0, noise[1, 0] + 100.0) is None


def test_the_interval_of_pairs_holds_the_change_of_runs_with_the_same_schedule() -> None:
    """Three levels of the same steps in both runs: they are no noise, and the change of 1 % is seen."""
    random = np.random.default_rng(3)
    levels = np.repeat([30.0, 60.0, 90.0], 100)
    held = seen = 0
    for _ in range(400):
        before, after = (random.normal(1.0, 0.02, len(levels)) * levels * factor for factor in (1.0, 1.01))
        each, apart = interval_of(before, after, paired=True), interval_of(before, after)
        assert each is not None
        assert apart is not None
        held += each.low_pct <= 1.0 <= each.high_pct
        seen += each.low_pct > 0.0
        assert each.high_pct - each.low_pct < 0.1 * (apart.high_pct - apart.low_pct)
    assert 368 <= held <= 392
    assert seen > 390


def test_the_interval_of_a_comparison_is_of_the_steps_that_it_compares() -> None:
    before, after = (
        untraced_profile(records_of([step_rows(0, walls)])) for walls in ([100.0, 102.0] * 30, [110.0, 108.0] * 30)
    )
    comparison = compare(before, after)
    found = change_interval(before, after, comparison)
    assert found is not None
    ratio = comparison.step.after.value / comparison.step.before.value
    assert found.change_pct == pytest.approx(100.0 * (ratio - 1.0))
    assert found.low_pct < found.change_pct < found.high_pct


def test_steps_without_any_spread_give_the_change_itself() -> None:
    before, after = host_bound(10.0), host_bound(12.0)
    found = change_interval(before, after, compare(before, after))
    assert found is not None
    assert (found.change_pct, found.low_pct, found.high_pct) == pytest.approx((20.0, 20.0, 20.0))
