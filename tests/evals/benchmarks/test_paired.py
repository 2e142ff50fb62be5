from __future__ import annotations

from random import Random

import pytest

from evals.benchmarks.monitor_overhead import Median, median_with_interval


def test_the_median_lies_in_its_interval_which_more_pairs_make_narrower() -> None:
    random = Random(7)
    few = median_with_interval([random.gauss(20.0, 300.0) for _ in range(50)])
    many = median_with_interval([random.gauss(20.0, 300.0) for _ in range(1500)])
    for each in (few, many):
        assert each.low <= each.value <= each.high
    assert many.high - many.low < (few.high - few.low) / 3


def test_one_interrupted_block_does_not_move_the_median() -> None:
    assert median_with_interval([1.0, 2.0, 3.0, 4.0, 1e6]).value == 3.0


def test_the_interval_holds_the_truth_in_about_19_of_20_measurements() -> None:
    random = Random(11)
    held = 0
    for _ in range(60):
        found = median_with_interval([random.gauss(0.0, 1.0) for _ in range(60)])
        held += found.low <= 0.0 <= found.high
    assert 52 <= held <= 60


def test_what_is_known_is_added_and_units_are_changed_in_all_three() -> None:
    assert Median(2.0, -1.0, 5.0).plus(3.0) == Median(5.0, 2.0, 8.0)
    assert Median(2.0, -1.0, 5.0).times(10.0) == Median(20.0, -10.0, 50.0)


def test_it_is_shown_with_its_signs() -> None:
    assert Median(0.04, -0.01, 0.09).text(2) == "+0.04 (-0.01 to +0.09)"


def test_without_a_pair_there_is_nothing_to_tell() -> None:
    with pytest.raises((ValueError, IndexError)):
        median_with_interval([])
