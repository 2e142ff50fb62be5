"""Idle gaps of made-up ranks with known reasons."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.synthetic import RankBuilder, profile_of
from tools.intervals import length
from tools.metrics.idle import REASONS, explained_by_bursts, idle_by_step, idle_time
from tools.run.events import EventKind
from tools.views.profile import Profile


def total_us(profile: Profile, reason: str) -> float:
    return float(idle_time(profile, 0).gaps[f"{reason}_ns"].sum()) / 1e3


def launch_bound(kernels: int, interval_us: float, kernel_us: float) -> RankBuilder:
    rank = RankBuilder()
    for number in range(kernels):
        at = number * interval_us
        rank.kernel("small", start_us=at + 2, duration_us=kernel_us, call_us=at)
    rank.step(0, 0, kernels * interval_us)
    return rank


def test_short_gaps_before_late_launches_are_dispatch() -> None:
    profile = profile_of(launch_bound(kernels=10, interval_us=100, kernel_us=10))
    assert total_us(profile, "dispatch") == pytest.approx(10 * 90)
    assert total_us(profile, "stall") == 0


def test_a_gap_beyond_the_limit_is_a_stall() -> None:
    profile = profile_of(launch_bound(kernels=3, interval_us=900, kernel_us=100))
    assert total_us(profile, "stall") == pytest.approx(2 * 800 + 798)
    assert total_us(profile, "dispatch") == pytest.approx(2)


def test_work_that_is_launched_but_not_started_is_not_the_hosts_fault() -> None:
    rank = RankBuilder()
    rank.kernel("first", start_us=10, duration_us=10, call_us=0)
    rank.kernel("second", start_us=100, duration_us=100, call_us=4)
    rank.step(0, 0, 200)
    profile = profile_of(rank)
    assert total_us(profile, "launched") == pytest.approx(8 + 80)
    assert total_us(profile, "dispatch") == pytest.approx(2)


def waiting_rank(wait_us: float, pause_us: float) -> RankBuilder:
    """A kernel of ``wait_us`` for which the host waits, then a pause of the host, then a short kernel."""
    rank = RankBuilder()
    rank.kernel("long", start_us=2, duration_us=wait_us, call_us=0)
    rank.runtime("cudaStreamSynchronize", 2, wait_us)
    rank.kernel("next", start_us=2 + wait_us + pause_us, duration_us=10, call_us=wait_us + pause_us)
    rank.step(0, 0, 2 + wait_us + pause_us + 10)
    return rank


def test_a_gap_after_a_wait_for_the_device_is_explained_by_the_wait() -> None:
    profile = profile_of(waiting_rank(wait_us=400, pause_us=300))
    assert total_us(profile, "synchronization") == pytest.approx(300)
    assert length(idle_time(profile, 0).sets["synchronization"]) == pytest.approx(300_000)


def test_a_wait_explains_no_more_than_the_time_the_host_stood_still() -> None:
    profile = profile_of(waiting_rank(wait_us=100, pause_us=300))
    assert total_us(profile, "synchronization") == pytest.approx(100)
    assert total_us(profile, "dispatch") == pytest.approx(2 + 200)


def test_a_long_pause_after_a_wait_is_more_than_the_way_to_the_next_launch() -> None:
    profile = profile_of(waiting_rank(wait_us=9000, pause_us=3000))
    assert total_us(profile, "stall") == pytest.approx(3000 - 2)
    assert total_us(profile, "synchronization") == pytest.approx(2)
    assert length(idle_time(profile, 0).sets["stall"]) == pytest.approx(2_998_000)


def test_a_long_way_of_many_operators_to_the_next_launch_is_the_waits() -> None:
    rank = waiting_rank(wait_us=9000, pause_us=3000)
    for number in range(10):
        rank.operator("aten::view", 9002 + 300 * number, 290)
    profile = profile_of(rank)
    assert total_us(profile, "synchronization") == pytest.approx(3000)
    assert total_us(profile, "stall") == 0


def test_lead_that_is_left_over_covers_later_gaps() -> None:
    waits = pd.DataFrame({"start_ns": [0, 200], "end_ns": [100, 210], "waited_ns": [100, 10]})
    start = np.array([-50, 100, 150, 210], dtype=np.int64)
    left = np.array([20, 30, 30, 90], dtype=np.int64)
    assert explained_by_bursts(waits, start, left).tolist() == [0, 30, 30, 50]


def test_time_in_an_allocation_or_a_collection_has_its_own_reason() -> None:
    rank = RankBuilder()
    rank.kernel("first", start_us=2, duration_us=8, call_us=0)
    rank.runtime("cudaMalloc", 10, 100)
    rank.annotation("Python GC", 110, 50)
    rank.kernel("second", start_us=200, duration_us=10, call_us=198)
    rank.step(0, 0, 210)
    profile = profile_of(rank)
    assert total_us(profile, "allocation") == pytest.approx(100)
    assert total_us(profile, "collection") == pytest.approx(50)
    assert total_us(profile, "dispatch") == pytest.approx(2 + 40)


def test_waiting_for_the_loader_comes_before_every_other_reason() -> None:
    rank = RankBuilder()
    rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 100)
    rank.kernel("only", start_us=102, duration_us=50, call_us=100)
    rank.step(0, 0, 152)
    profile = profile_of(rank)
    assert total_us(profile, "data") == pytest.approx(100)


def test_the_thread_that_launches_next_is_named() -> None:
    rank = RankBuilder()
    backward = rank.host_thread("backward")
    rank.kernel("first", start_us=2, duration_us=8, call_us=0)
    rank.kernel("second", start_us=60, duration_us=8, call_us=58, host_track=backward)
    rank.step(0, 0, 68)
    by_track = idle_time(profile_of(rank), 0).by_track("dispatch")
    assert {track: length(moments) for track, moments in by_track.items()} == {rank.main: 2_000, backward: 50_000}


def test_a_rank_without_a_device_has_no_gaps() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::add", 0, 10)
    rank.step(0, 0, 20)
    assert idle_time(profile_of(rank), 0).gaps.empty


@settings(max_examples=25, deadline=None)
@given(
    kernels=st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 200), st.integers(0, 60)), min_size=1, max_size=25),
    waits=st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 300)), max_size=5),
    spans=st.lists(st.tuples(st.sampled_from(["cudaMalloc", "cudaFree"]), st.integers(0, 3000)), max_size=4),
)
def test_the_reasons_of_every_gap_add_up_to_it(
    kernels: list[tuple[int, int, int]], waits: list[tuple[int, int]], spans: list[tuple[str, int]]
) -> None:
    rank = RankBuilder()
    for start, duration, ahead in kernels:
        rank.kernel("kernel", start_us=start + ahead, duration_us=duration, call_us=start)
    for start, duration in waits:
        rank.event(EventKind.RUNTIME, "cudaDeviceSynchronize", start, duration)
    for name, start in spans:
        rank.event(EventKind.RUNTIME, name, start, 40)
    rank.step(0, 0, 1500)
    rank.step(1, 1500, 3500)
    profile = profile_of(rank)
    gaps = idle_time(profile, 0).gaps
    parts = gaps[[f"{reason}_ns" for reason in REASONS]]
    assert (parts.to_numpy() >= 0).all()
    assert parts.sum(axis=1).tolist() == (gaps["end_ns"] - gaps["start_ns"]).tolist()
    table = profile.breakdown
    unused = table["data_wait_ns"] + table["host_ns"] + table["idle_ns"]
    assert idle_by_step(profile, 0)["all"].tolist() == unused.tolist()
