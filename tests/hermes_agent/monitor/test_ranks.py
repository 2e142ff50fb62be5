from __future__ import annotations

import random
from collections.abc import Iterator
from math import sqrt

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
