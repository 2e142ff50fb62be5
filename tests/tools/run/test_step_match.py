"""Clocks of two sources from the ends and the lengths of their steps."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tools.run.recorded.counters import SampleClock
from tools.run.step_match import (
    MOST_PLACES,
    TimedSteps,
    _tried,
    match_by_lengths,
    match_by_times,
    shift_by_times,
)

BEGIN_NS = 1_700_000_000 * 10**9
STEP_NS = 2e8


def walls(count: int, seed: int, jitter: float = 0.2) -> NDArray[np.float64]:
    """Lengths of steps in ns of a training that is not quite regular, with a long step now and then."""
    random = np.random.default_rng(seed)
    lengths = STEP_NS * (1.0 + jitter * random.random(count))
    lengths[:: 1 + count // 5] *= 4.0 if jitter else 1.0
    return lengths


def steps(
    lengths: NDArray[np.float64], first: int = 0, begin_ns: float = BEGIN_NS, clock: SampleClock = "unix"
) -> TimedSteps:
    numbers = np.arange(first, first + len(lengths), dtype=np.int64)
    return TimedSteps("steps", clock, numbers, begin_ns + np.cumsum(lengths), lengths / 1e6)


def cut(whole: TimedSteps, begin: int, end: int) -> TimedSteps:
    part = slice(begin, end)
    return TimedSteps(whole.source, whole.clock, whole.numbers[part], whole.end_ns[part], whole.wall_ms[part])


@given(
    seed=st.integers(0, 1 << 16),
    offset_s=st.floats(-50_000.0, 50_000.0),
    noise_ms=st.floats(0.0, 30.0),
    shift=st.integers(-40, 40),
    begin=st.integers(0, 60),
)
def test_an_offset_with_noise_is_recovered_within_the_residual_that_is_stated(
    seed: int, offset_s: float, noise_ms: float, shift: int, begin: int
) -> None:
    whole = steps(walls(100, seed))
    late = np.random.default_rng(seed + 1).random(100) * noise_ms * 1e6
    other = TimedSteps("log", "local", whole.numbers - shift, whole.end_ns - offset_s * 1e9 + late, whole.wall_ms)
    found = match_by_times(cut(whole, begin, begin + 30), other)
    assert found
    for match in found[:1]:
        assert abs(match.offset_ns - offset_s * 1e9) <= match.residual_ns
        assert match.shift in (shift, None)


@given(seed=st.integers(0, 1 << 16), shift=st.integers(-30, 30))
def test_steps_are_placed_by_their_lengths_alone(seed: int, shift: int) -> None:
    whole = steps(walls(80, seed))
    other = TimedSteps("log", "none", whole.numbers - shift, np.full(80, np.nan), whole.wall_ms * 0.98)
    found = match_by_lengths(cut(whole, 20, 50), other)
    assert found is not None
    assert found.shift == shift


def test_regular_steps_fit_anywhere_and_the_residual_says_so() -> None:
    whole = steps(walls(200, 0, jitter=0.0))
    best = match_by_times(cut(whole, 50, 80), TimedSteps("log", "local", whole.numbers, whole.end_ns, whole.wall_ms))
    assert best[0].shift is None
    assert best[0].residual_ns >= 50 * STEP_NS
    assert best[1].offset_ns == 0.0
    assert match_by_lengths(cut(whole, 50, 80), whole) is None


def test_too_few_steps_are_not_matched() -> None:
    whole = steps(walls(100, 3))
    assert match_by_times(cut(whole, 5, 8), whole) == ()
    assert match_by_lengths(cut(whole, 5, 10), whole) is None


def test_step_numbers_follow_from_ends_that_lie_next_to_each_other() -> None:
    whole = steps(walls(50, 4))
    traced = TimedSteps("traces", "unix", np.arange(6), whole.end_ns[20:26] + 2e5, whole.wall_ms[20:26])
    assert shift_by_times(traced, whole, 0.0, 1e6) == -20
    assert shift_by_times(traced, whole, 0.0, 1e9) is None


@pytest.mark.parametrize("away_s", [-3600.0, 3600.0])
def test_steps_of_another_time_have_no_step_in_common(away_s: float) -> None:
    whole = steps(walls(50, 5))
    assert shift_by_times(steps(walls(6, 6), begin_ns=BEGIN_NS + away_s * 1e9), whole, 0.0, 1e6) is None


@pytest.mark.parametrize("stray", [400_000_000, 10**11, 2**62, -(2**62)])
@pytest.mark.parametrize("longer", [5, 100])
def test_a_stray_step_number_needs_no_memory_for_the_numbers_up_to_it(stray: int, longer: int) -> None:
    """As a log gives it that has one wrong line: of 400,000,000 steps the places alone would take 3.2 GB."""
    numbers = np.sort(np.array([0, 1, 2, 3, 4, stray], dtype=np.int64))
    lengths = walls(len(numbers), 0)
    log = TimedSteps("log", "unix", numbers, BEGIN_NS + np.cumsum(lengths), lengths / 1e6)
    other = steps(walls(longer, 1))
    tracemalloc.start()
    try:
        assert match_by_times(other, log) == match_by_times(log, other) == ()
        assert match_by_lengths(other, log) is match_by_lengths(log, other) is None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 << 20


@pytest.mark.parametrize("lowest", [-10, 50_000, 300_000, -500_000, -(10**15), 10**15])
def test_the_places_nearest_to_equal_numbers_are_tried(lowest: int) -> None:
    every = np.arange(lowest, lowest + 200_000)
    nearest = every[np.argsort(np.abs(every), kind="stable")[:MOST_PLACES]]
    tried = _tried(lowest, lowest + 199_999)
    assert set(nearest) <= set(tried) <= set(every)
    assert len(tried) <= 2 * MOST_PLACES + 1
