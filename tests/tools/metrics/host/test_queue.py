"""The launch queue of made-up ranks."""

from __future__ import annotations

from tests.synthetic import RankBuilder, profile_of
from tools.metrics.host.launches import launch_queue


def test_queue_length_delay_and_interval_are_as_built() -> None:
    rank = RankBuilder()
    rank.kernel("a", start_us=10, duration_us=100, call_us=0)
    rank.kernel("b", start_us=110, duration_us=100, call_us=20)
    rank.kernel("c", start_us=210, duration_us=100, call_us=30)
    rank.kernel("d", start_us=310, duration_us=10, call_us=250)
    rank.step(0, 0, 320)
    table = launch_queue(profile_of(rank), 0)
    assert table["queued"].tolist() == [0, 0, 1, 0]
    assert table["delay_ns"].tolist() == [8_000, 88_000, 178_000, 58_000]
    assert table["interval_ns"].tolist() == [-1, 20_000, 10_000, 220_000]


def test_a_kernel_that_starts_before_its_call_returns_gives_no_negative_length() -> None:
    rank = RankBuilder()
    rank.kernel("a", start_us=1, duration_us=3, call_us=0, call_duration_us=10)
    rank.kernel("b", start_us=13, duration_us=3, call_us=12, call_duration_us=10)
    rank.step(0, 0, 30)
    table = launch_queue(profile_of(rank), 0)
    assert table["queued"].tolist() == [0, 0]
    assert table["delay_ns"].tolist() == [0, 0]


def test_launches_outside_the_steps_are_left_out() -> None:
    rank = RankBuilder()
    rank.kernel("before", start_us=2, duration_us=3, call_us=0)
    rank.kernel("inside", start_us=102, duration_us=3, call_us=100)
    rank.step(0, 50, 150)
    assert len(launch_queue(profile_of(rank), 0)) == 1
