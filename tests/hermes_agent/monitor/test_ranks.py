from __future__ import annotations

import random
from collections.abc import Iterator
from math import sqrt
from statistics import median

import pytest

from hermes_agent.watch.ranks import ContrastWatch, lasting_noise

STEP_MS = 100.0


def differences(noise_ms: float, correlation: float, steps: int, seed: int) -> Iterator[float]:
    """Normal noise in which each value keeps that part of the one before it."""
    draw, last = random.Random(seed), 0.0
    for _ in range(steps):
        last = correlation * last + sqrt(1 - correlation**2) * draw.gauss(0, noise_ms)
        yield last


def alarms(values: Iterator[float], rise_ms: float = 0.0, since: int = 0) -> list[int]:
    watch = ContrastWatch()
    found = []
    for step, value in enumerate(values):
        if watch.feed(step, value + (rise_ms if step >= since else 0.0), STEP_MS) is not None:
            found.append(step)
    return found


def test_independent_noise_counts_once_and_lasting_noise_by_what_it_adds_to_a_sum() -> None:
    independent = lasting_noise(list(differences(8.0, 0.0, 4000, seed=1)))
    lasting = lasting_noise(list(differences(8.0, 0.6, 4000, seed=1)))
    assert independent.spread_ms == pytest.approx(8.0, rel=0.1)
    # 1 + 2 sum (1 - k/11) 0.6^k = 3.32 for k from 1 to 10; endless it would be (1 + 0.6) / (1 - 0.6) = 4
    assert lasting.spread_ms == pytest.approx(8.0 * sqrt(3.32), rel=0.15)
    assert lasting.middle_ms == pytest.approx(0.0, abs=1.0)


def test_differences_that_alternate_or_never_change_do_not_count_less_than_one_by_one() -> None:
    assert lasting_noise([1.0, -1.0] * 50).spread_ms == pytest.approx(1.4826)
    assert lasting_noise([3.0] * 50) == (3.0, 0.0)


@pytest.mark.parametrize("correlation", [0.0, 0.4, 0.8])
def test_even_ranks_are_hardly_ever_named_however_long_their_noise_lasts(correlation: float) -> None:
    named = [alarms(differences(15.0, correlation, 1500, seed)) for seed in range(8)]
    assert sum(map(len, named)) <= 1  # of 12,000 steps


def test_a_rise_of_three_deviations_is_noticed_within_twelve_steps_and_25_at_most() -> None:
    first = [alarms(differences(5.0, 0.2, 300, seed), rise_ms=15.0, since=220)[0] for seed in range(12)]
    assert 220 < min(first) <= median(first) < 232
    assert max(first) < 245


def bursts(steps: int, seed: int) -> Iterator[float]:
    """Every 100 steps or so one rank is 20 ms slower for 15 steps, which passes by itself."""
    draw = random.Random(seed)
    left = 0
    for _ in range(steps):
        left = 15 if left == 0 and draw.random() < 0.01 else max(left - 1, 0)
        yield draw.gauss(0, 4.0) + (20.0 if left else 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_rises_that_pass_by_themselves_are_reported_a_few_times_only(seed: int) -> None:
    assert len(alarms(bursts(4000, seed))) <= 4


def test_a_fault_that_stays_is_noticed_where_some_rises_passed() -> None:
    found = alarms(bursts(4000, seed=1), rise_ms=20.0, since=3000)
    assert any(3000 <= step < 3060 for step in found)
