"""Other tools' definitions on runs whose figures can be worked out by hand."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.metrics.attribution import (
    ROLES,
    device_timeline,
    loader_span_pct,
    plugin_steps,
    plugin_utilization_pct,
    priority_attribution,
    temporal_breakdown,
)
from tools.run.events import EventKind
from tools.views.rank_profile import RankProfile


def view(rank: RankBuilder) -> RankProfile:
    return profile_of(rank).ranks[0]


def two_steps() -> RankBuilder:
    """Step 0: host 0 to 100 with device work to 130. Step 1: host 100 to 200 with device work to 190."""
    rank = RankBuilder()
    rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 30)
    rank.kernel("volta_sgemm_128x64_nn", 20, 20, call_us=5, call_duration_us=10)
    rank.kernel("ncclKernel_AllReduce", 90, 40, call_us=85, call_duration_us=5)
    rank.operator("aten::mm", 40, 20)
    rank.kernel("volta_sgemm_128x64_nn", 150, 40, call_us=140, call_duration_us=4)
    rank.copy("Memcpy HtoD (Pageable -> Device)", 135, 20, call_us=132, call_duration_us=3, bytes_=64)
    rank.step(0, 0, 100)
    rank.step(1, 100, 200)
    return rank


def test_a_plugin_step_ends_with_its_device_work_and_starts_where_the_one_before_ended() -> None:
    steps = plugin_steps(view(two_steps()))
    assert list(steps["start_ns"]) == [0, 130_000]
    assert list(steps["end_ns"]) == [130_000, 200_000]
    assert list(steps["device_operations"]) == [2, 2]


def test_each_moment_goes_to_the_first_active_role() -> None:
    table = priority_attribution(view(two_steps()))
    first, second = (table.iloc[row] / 1000 for row in (0, 1))
    assert {role: first[f"{role}_ns"] for role in ROLES} == {
        "kernel": 20,  # 20 to 40
        "memcpy": 0,
        "memset": 0,
        "communication": 40,  # 90 to 130
        "runtime": 10 + 5,  # 5 to 15, 85 to 90
        "data_loader": 5 + 5,  # 0 to 5, 15 to 20
        "operator": 20,  # 40 to 60
    }
    assert first["other_ns"] == 25  # 60 to 85
    assert (second["kernel_ns"], second["memcpy_ns"]) == (40, 15)


def test_the_parts_of_every_plugin_step_add_up() -> None:
    table = priority_attribution(view(two_steps()))
    parts = table[[f"{role}_ns" for role in (*ROLES, "other")]].sum(axis=1)
    assert list(parts) == list(table["step_ns"])


def test_a_last_step_with_little_device_work_is_left_out() -> None:
    rank = two_steps()
    rank.kernel("volta_sgemm_128x64_nn", 210, 5, call_us=205)
    rank.step(2, 200, 300)
    assert len(plugin_steps(view(rank))) == 2


def test_utilization_counts_kernels_over_all_plugin_steps() -> None:
    assert plugin_utilization_pct(profile_of(two_steps()), 0).value == pytest.approx(100 * (20 + 40 + 40) / 200)


def test_the_loader_share_is_of_the_host_spans() -> None:
    assert loader_span_pct(profile_of(two_steps()), 0).value == pytest.approx(100 * 30 / 200)


def test_the_temporal_breakdown_leaves_out_what_the_last_step_launched() -> None:
    split = temporal_breakdown(view(two_steps()))
    assert (split["span"], split["compute"], split["non_compute"], split["idle"]) == (110_000, 20_000, 40_000, 50_000)


def test_the_temporal_breakdown_can_include_the_last_step() -> None:
    split = temporal_breakdown(view(two_steps()), last_step=True)
    assert (split["span"], split["compute"], split["non_compute"]) == (170_000, 60_000, 40_000 + 15_000)
    assert split["overlapped"] == 0


def test_whole_microseconds_are_cut_inwards_on_the_recording_clock() -> None:
    rank = RankBuilder()
    rank.kernel("volta_sgemm_128x64_nn", 10.4, 5.0, call_us=1)
    rank.kernel("volta_sgemm_128x64_nn", 20.0, 5.0, call_us=2)
    rank.step(0, 0, 100)
    assert temporal_breakdown(view(rank), resolution_ns=1000)["compute"] == 4000 + 5000
    assert temporal_breakdown(view(rank), resolution_ns=1000, origin_ns=600)["compute"] == 5000 + 4000
    assert temporal_breakdown(view(rank))["compute"] == 10_000


def test_the_timeline_counts_launched_work_and_exposed_copies() -> None:
    timeline = device_timeline(view(two_steps()))
    assert timeline["total"] == 170_000
    assert (timeline["compute"], timeline["exposed_communication"], timeline["exposed_memcpy"]) == (
        60_000,
        40_000,
        15_000,
    )
    assert timeline["idle"] == 55_000


def test_recomputed_work_can_be_left_out() -> None:
    rank = two_steps()
    rank.event(EventKind.PYTHON, "torch/utils/checkpoint.py(1500): recompute_fn", 138, 8)
    timeline = device_timeline(view(rank), recomputed=False)
    assert (timeline["compute"], timeline["exposed_memcpy"]) == (20_000, 20_000)


def test_a_rank_without_steps_or_device_work_has_empty_figures() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::mm", 0, 10)
    rank.step(0, 0, 10, marked=False)
    assert len(priority_attribution(view(rank))) == 0
    assert plugin_utilization_pct(profile_of(rank), 0).value == 0.0
    assert temporal_breakdown(view(rank))["span"] == 0
    assert device_timeline(view(rank))["total"] == 0
