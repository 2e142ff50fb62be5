"""Which steps the dependency graph covers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.synthetic import RankBuilder, profile_of, run_of, to_ns
from tools.errors import UsageError
from tools.views.profile import Profile
from tools.whatif.window import choose_window


def launching(walls_us: list[float], launches: int = 3) -> RankBuilder:
    """Steps of the given lengths, each with some launches."""
    rank = RankBuilder()
    at = 0.0
    for step, wall in enumerate(walls_us):
        for number in range(launches):
            rank.kernel("kernel", start_us=at + number * 10 + 5, duration_us=2, call_us=at + number * 10)
        rank.step(step, at, at + wall)
        at += wall
    return rank


def test_all_steps_are_taken_when_they_fit() -> None:
    window = choose_window(profile_of(launching([100, 120, 90])))
    assert window.steps == (0, 1, 2)
    assert window.step_ms == pytest.approx((0.1, 0.12, 0.09))
    assert window.recorded_step_ms == pytest.approx(0.31 / 3)


def test_else_neighbouring_steps_nearest_to_the_median_are() -> None:
    walls = [900.0, 300.0, 100.0, 110.0, 120.0, 700.0, 110.0]
    window = choose_window(profile_of(launching(walls)), budget=3 * 70)
    assert window.steps == (2, 3, 4)


def test_one_step_is_taken_however_large_it_is() -> None:
    assert choose_window(profile_of(launching([100, 120, 90])), budget=1).steps == (0,)


def test_a_last_step_recorded_until_the_device_had_drained_ends_where_its_thread_left_it() -> None:
    rank = RankBuilder()
    for step in range(2):
        rank.annotation(f"ProfilerStep#{step}", step * 100, 100)
        rank.kernel("kernel", start_us=step * 300 + 10, duration_us=300, call_us=step * 100)
        rank.step(step, step * 100, (step + 1) * 100 + (410 if step else 0), marked=False)
    window = choose_window(profile_of(rank))
    assert window.end_ns.tolist() == [to_ns(200)]
    assert window.recorded_step_ms == pytest.approx(0.1)


def test_a_recording_without_marked_steps_is_taken_with_the_devices_work_behind_the_host() -> None:
    rank = RankBuilder()
    rank.kernel("graph", start_us=10, duration_us=900, call_us=5)
    rank.step(0, 0, 910, marked=False)
    run = run_of(rank)
    profile = Profile(replace(run, ranks=tuple(replace(each, step_origin="window") for each in run.ranks)))
    assert choose_window(profile).recorded_step_ms == pytest.approx(0.91)
    assert choose_window(profile_of(rank)).recorded_step_ms < 0.1


def test_only_steps_that_all_ranks_have_are_taken() -> None:
    first, second = launching([100, 100, 100]), RankBuilder(rank=1)
    for step in (1, 2, 3):
        second.operator("work", step * 100, 50)
        second.step(step, step * 100, step * 100 + 100)
    window = choose_window(profile_of(first, second))
    assert window.ranks == (0, 1)
    assert window.steps == (1, 2)
    assert window.start_ns.tolist() == [to_ns(100), to_ns(100)]


def test_the_slowest_rank_makes_the_step_time() -> None:
    first, second = launching([100, 100]), RankBuilder(rank=1)
    for step in range(2):
        second.operator("work", step * 100, 50)
        second.step(step, step * 100, step * 100 + 100 + 20 * step)
    assert choose_window(profile_of(first, second)).step_ms == pytest.approx((0.1, 0.12))


def test_without_steps_there_is_nothing_to_replay() -> None:
    rank = RankBuilder()
    rank.operator("work", 0, 10)
    with pytest.raises(UsageError, match="no steps"):
        choose_window(profile_of(rank))
