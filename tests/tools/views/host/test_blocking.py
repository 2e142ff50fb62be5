"""Calls that wait for the device, and launches that wait for their kernel."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.views.host.blocking import blocking_calls, bursts, kernel_launches, upload_calls


def test_a_blocking_read_and_the_synchronise_after_it_are_one_burst() -> None:
    rank = RankBuilder()
    rank.kernel("long", start_us=2, duration_us=100, call_us=0)
    rank.copy("Memcpy DtoH (Device -> Pageable)", start_us=102, duration_us=2, call_us=4, call_duration_us=101)
    rank.runtime("cudaStreamSynchronize", 110, 3)
    rank.runtime("cudaStreamSynchronize", 190, 3)
    rank.step(0, 0, 200)
    profile = profile_of(rank)
    calls = blocking_calls(profile, 0)
    assert calls["read_back"].tolist() == [True, False, False]
    assert calls["burst"].tolist() == [0, 0, 1]
    assert bursts(profile, 0)["waited_ns"].tolist() == [100_000, 0]


def test_a_copy_that_the_call_does_not_wait_for_is_not_blocking() -> None:
    rank = RankBuilder()
    rank.copy("Memcpy DtoH (Device -> Pinned)", start_us=50, duration_us=20, call_us=0, call_duration_us=5)
    rank.step(0, 0, 100)
    assert blocking_calls(profile_of(rank), 0).empty


def test_only_pageable_uploads_count_as_blocking_uploads() -> None:
    rank = RankBuilder()
    rank.copy("Memcpy HtoD (Pageable -> Device)", start_us=30, duration_us=20, call_us=0, call_duration_us=50)
    rank.copy("Memcpy HtoD (Pinned -> Device)", start_us=80, duration_us=20, call_us=60, call_duration_us=3)
    rank.step(0, 0, 100)
    calls = upload_calls(profile_of(rank), 0)
    assert calls["copy_ns"].tolist() == [20_000]
    assert (calls["end_ns"] - calls["start_ns"]).tolist() == [50_000]


@pytest.mark.parametrize("how", ["call lasts", "synchronise follows"])
def test_launches_that_wait_for_their_kernel_are_found(how: str) -> None:
    rank = RankBuilder()
    for number in range(10):
        at = 100.0 * number
        waits = number < 6
        duration = 60.0 if waits and how == "call lasts" else 3.0
        rank.kernel("kernel", start_us=at + 5, duration_us=50, call_us=at, call_duration_us=duration)
        if waits and how == "synchronise follows":
            rank.runtime("cudaStreamSynchronize", at + 5, 51)
    rank.step(0, 0, 1000)
    calls = kernel_launches(profile_of(rank), 0)
    assert len(calls.rows) == 10
    assert len(calls.blocked) == 6


def test_a_synchronise_of_another_thread_does_not_make_a_launch_blocking() -> None:
    rank = RankBuilder()
    other = rank.host_thread("other")
    rank.kernel("a", start_us=5, duration_us=50, call_us=0)
    rank.kernel("b", start_us=60, duration_us=50, call_us=40, host_track=other)
    rank.runtime("cudaStreamSynchronize", 45, 70)
    rank.step(0, 0, 120)
    calls = kernel_launches(profile_of(rank), 0)
    assert [int(row) for row in calls.blocked] == [int(calls.rows[0])]
