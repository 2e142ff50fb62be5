from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from hermes_agent.watch.anomaly import AnomalyKind, Deviation
from hermes_agent.watch.series import DriftWatch, SeriesWatch, mann_kendall

NOISE = 0.02


def noisy(level: Callable[[int], float], steps: int, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [level(step) * (1 + draw.gauss(0, NOISE)) for step in range(steps)]


def watch(values: Iterable[float]) -> list[Deviation]:
    series, drift = SeriesWatch(), DriftWatch()
    found: list[Deviation] = []
    for step, value in enumerate(values):
        new = series.feed(step, value)
        if any(each.kind in (AnomalyKind.CHANGE, AnomalyKind.RECOVERY) for each in new):
            drift.restart()
        found += new + drift.feed(step, value)
    return found


def of_kind(found: list[Deviation], kind: AnomalyKind) -> list[Deviation]:
    return [each for each in found if each.kind is kind]


@pytest.mark.parametrize("seed", range(10))
def test_a_steady_run_is_left_in_peace(seed: int) -> None:
    assert watch(noisy(lambda _: 100.0, 3000, seed)) == []


@pytest.mark.parametrize("factor", [1.15, 1.3, 2.0, 10.0])
def test_a_change_is_noticed_within_ten_steps_of_its_begin(factor: float) -> None:
    found = watch(noisy(lambda step: 100.0 * (factor if step >= 200 else 1), 400))
    (change,) = of_kind(found, AnomalyKind.CHANGE)
    assert 198 <= change.step <= 202
    assert change.noticed < 210
    assert change.usual_ms == pytest.approx(100, rel=0.02)
    assert change.seen_ms == pytest.approx(100 * factor, rel=0.05)


def test_a_small_change_is_noticed_by_what_it_adds_up_to() -> None:
    found = watch(noisy(lambda step: 100.0 * (1.08 if step >= 200 else 1), 400))
    (change,) = of_kind(found, AnomalyKind.CHANGE)
    assert 195 <= change.step <= 205
    assert change.noticed < 220


def jittery(level: Callable[[int], float], steps: int, seed: int) -> list[float]:
    """A machine shared with others: every fourth step or so is a fifth slower, at random."""
    draw = random.Random(seed)
    return [value * (1.2 if draw.random() < 0.25 else 1.0) for value in noisy(level, steps, seed)]


@pytest.mark.parametrize("seed", range(5))
def test_where_slow_steps_are_usual_they_are_neither_changes_nor_stalls(seed: int) -> None:
    found = watch(jittery(lambda _: 100.0, 2000, seed))
    assert [each for each in found if each.kind is not AnomalyKind.SPIKE] == []
    assert len(found) < 50  # of about 500 slow steps


@pytest.mark.parametrize("seed", range(5))
def test_a_change_is_noticed_where_slow_steps_are_usual(seed: int) -> None:
    found = watch(jittery(lambda step: 100.0 * (2.0 if step >= 200 else 1), 400, seed))
    change = of_kind(found, AnomalyKind.CHANGE)[0]
    assert 198 <= change.step <= 202
    assert change.noticed < 210


@pytest.mark.parametrize("since", [30, 45, 60])
def test_a_change_soon_after_the_start_is_noticed(since: int) -> None:
    found = watch(noisy(lambda step: 100.0 * (1.5 if step >= since else 1), 100))
    (change,) = of_kind(found, AnomalyKind.CHANGE)
    assert change.noticed < since + 10


def test_a_return_to_the_old_level_is_a_recovery() -> None:
    found = watch(noisy(lambda step: 130.0 if 200 <= step < 300 else 100.0, 400))
    assert [each.kind for each in found if each.kind is not AnomalyKind.SPIKE] == [
        AnomalyKind.CHANGE,
        AnomalyKind.RECOVERY,
    ]
    assert 298 <= found[-1].step <= 302


def test_a_spike_is_noticed_at_once_and_is_no_change() -> None:
    (spike,) = watch(noisy(lambda step: 150.0 if step == 250 else 100.0, 400))
    assert (spike.kind, spike.step, spike.noticed) == (AnomalyKind.SPIKE, 250, 250)


def test_stalls_at_one_distance_are_told_once_with_the_distance() -> None:
    found = watch(noisy(lambda step: 300.0 if step % 25 == 24 else 100.0, 500))
    (stall,) = of_kind(found, AnomalyKind.STALL)
    assert stall.every == 25
    assert stall.seen_ms == pytest.approx(300, rel=0.05)
    assert of_kind(found, AnomalyKind.CHANGE) == []


def test_spikes_at_random_distances_are_no_periodic_stall() -> None:
    slow = set(random.Random(3).sample(range(100, 2000), 12))
    found = watch(noisy(lambda step: 300.0 if step in slow else 100.0, 2000))
    assert len(of_kind(found, AnomalyKind.SPIKE)) == 12
    assert of_kind(found, AnomalyKind.STALL) == []


def test_a_slow_drift_is_noticed_and_is_no_change() -> None:
    found = watch(noisy(lambda step: 100.0 * (1 + 0.0002 * step), 1000))
    drift = of_kind(found, AnomalyKind.DRIFT)
    assert len(drift) >= 1
    assert drift[0].seen_ms > 1.05 * drift[0].usual_ms


def test_a_jump_is_no_drift() -> None:
    found = watch(noisy(lambda step: 130.0 if step >= 400 else 100.0, 800))
    assert of_kind(found, AnomalyKind.DRIFT) == []
    assert len(of_kind(found, AnomalyKind.CHANGE)) == 1


@pytest.mark.parametrize(("values", "sign"), [([1, 2, 3, 4, 5, 6], 1), ([6, 5, 4, 3, 2, 1], -1), ([1, 1, 1, 1], 0)])
def test_the_trend_test_has_the_sign_of_the_trend(values: list[float], sign: int) -> None:
    z = mann_kendall(values)
    assert (z > 0) - (z < 0) == sign


def test_the_trend_test_of_six_rising_values_is_as_computed_by_hand() -> None:
    # score 15, variance 6*5*17/18 = 28.33, continuity correction 1
    assert mann_kendall([1, 2, 3, 4, 5, 6]) == pytest.approx(14 / 28.3333**0.5, rel=1e-4)
