"""The critical path: which way it takes, and what it says about real traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.real_runs import real_profile
from tests.synthetic import RankBuilder, profile_of
from tools.run.events import EventKind
from tools.run.model import Step
from tools.views.profile import Profile
from tools.whatif.build import graph_of
from tools.whatif.change import Scale
from tools.whatif.critical_path import critical_path, family_savings
from tools.whatif.graph import EdgeKind, NodeKind
from tools.whatif.predict import predict, unchanged

WITH_DEVICE = (
    "kineto/resnet50_workers0.pt.trace.json.gz",
    "kineto/resnet50_workers4.pt.trace.json.gz",
    "hta/nccl_parser_config.json.gz",
    "hta/df_index_resolver.json.gz",
    "hta/negative_queue_length_values_check.json.gz",
    "hta/trace_diff_control.json.gz",
    "hta/trace_diff_test.json.gz",
    "hta/critical_path_simple_add.json.gz",
    "hta/critical_path_alexnet.json.gz",
    "hta/critical_path_cuda_event_sync.json.gz",
    "hta/critical_path_cuda_event_sync_multi_stream.json.gz",
    "hta/amd_trace.json.gz",
    "hta/timeline_analysis.json.gz",
    "tracelens/mi300_resnet_act_checkpoint.json.gz",
)


def names_on_path(profile: Profile) -> list[str]:
    """Names along the path, "" where no event is."""
    segments = critical_path(profile).segments
    names = profile.rank(0).events.frame["name"].astype(str)
    return [names[row] if row >= 0 else "" for row in segments["row"]]


def test_the_path_goes_through_launch_kernel_and_wait() -> None:
    rank = RankBuilder()
    rank.operator("before", 0, 100)
    rank.kernel("gemm", start_us=110, duration_us=400, call_us=100, call_duration_us=4)
    rank.operator("hidden", 106, 200)
    rank.runtime("cudaDeviceSynchronize", 310, 205)
    rank.operator("after", 516, 84)
    rank.step(0, 0, 600)
    profile = profile_of(rank)
    segments = critical_path(profile).segments
    assert names_on_path(profile) == [
        "before",
        "cudaLaunchKernel",
        "gemm",
        "gemm",
        "cudaDeviceSynchronize",
        "",
        "after",
    ]
    assert segments["what"].tolist() == ["cpu", "cpu", "idle", "computation", "cpu", "cpu", "cpu"]
    assert critical_path(profile).ms() == pytest.approx(
        {"io": 0, "cpu": 0.194, "computation": 0.4, "communication": 0, "memory": 0, "idle": 0.006}
    )


def test_host_time_on_the_path_is_divided_by_family() -> None:
    rank = RankBuilder()
    rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 300)
    rank.operator("aten::stack", 50, 100)
    rank.runtime("cudaMalloc", 400, 50)
    rank.kernel("gemm", start_us=510, duration_us=90, call_us=500)
    rank.runtime("cudaDeviceSynchronize", 503, 99)
    rank.step(0, 0, 602)
    ms = critical_path(profile_of(rank)).ms()
    assert ms["io"] == pytest.approx(0.3)
    assert ms["memory"] == pytest.approx(0.05)
    assert ms["computation"] == pytest.approx(0.09)


def test_idle_time_is_nobodys_work_and_gets_no_saving() -> None:
    rank = RankBuilder()
    rank.operator("work", 0, 100)
    rank.step(0, 0, 100)
    rank.kernel("late", start_us=90, duration_us=5, call_us=50)
    savings = {each.family: each.saving_ms for each in family_savings(profile_of(rank))}
    assert savings["idle"] is None
    assert savings["cpu"] == pytest.approx(0.057)  # 38 us of latency after the call and 5 us of kernel remain


@pytest.mark.parametrize("name", WITH_DEVICE)
def test_on_recorded_runs_the_replay_reproduces_the_record_and_the_path_tiles_it(traces: Path, name: str) -> None:
    profile = real_profile(traces / name)
    base = unchanged(profile)
    window = base.graph.window
    assert base.missed_ms < 0.01 * window.recorded_step_ms
    assert base.graph.dropped == 0
    path = critical_path(profile)
    for table in (path.families, path.segments):
        start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
        assert np.array_equal(start[1:], end[:-1])
        assert start[0] == window.start_ns[0]
        assert end[-1] == window.end_ns[0]


def test_removing_the_loader_of_resnet_contains_what_more_workers_brought(traces: Path) -> None:
    before = real_profile(traces / "kineto/resnet50_workers0.pt.trace.json.gz")
    after = real_profile(traces / "kineto/resnet50_workers4.pt.trace.json.gz")
    rank = before.rank(0)
    rows = rank.loader_rows
    spans = np.column_stack((rank.start[rows], rank.end[rows]))
    prediction = predict(before, (Scale(0, int(rank.track[rows[0]]), spans),))
    measured = unchanged(before).graph.window.recorded_step_ms / unchanged(after).graph.window.recorded_step_ms
    assert measured == pytest.approx(1.25, abs=0.01)
    assert prediction.speedup_low < measured < prediction.speedup_high
    assert prediction.speedup_low < 1.26 < prediction.speedup_high
    # The loader's spans last 69.3 ms a step; what the device has left to do in them is not gained: 59.3 ms exposed.
    assert prediction.saving_ms == pytest.approx(59.0, abs=0.5)


def test_eight_ranks_are_joined_by_their_collectives(traces: Path) -> None:
    profile = real_profile(*sorted((traces / "param/dlrm_8rank").glob("worker*.json.gz")))
    graph = graph_of(profile)
    assert (graph.nodes.kind == NodeKind.TRANSFER).sum() == 8
    path = critical_path(profile).segments
    # Rank 7 comes last to the all-to-all: the path leads through its host, and ends on another rank.
    assert set(path["rank"]) == {4, 7}
    assert path.groupby("rank")["start_ns"].min().idxmin() == 7


def simple_add(traces: Path) -> Profile:
    """The measured forward pass that HTA's own test takes."""
    run = real_profile(traces / "hta/critical_path_simple_add.json.gz").run
    (rank,) = run.ranks
    frame = rank.events.frame
    named = frame[frame["name"].astype(str).str.endswith("measure|forward]")]
    chosen = named.iloc[-1]
    step = Step(0, int(chosen["start_ns"]), int(chosen["end_ns"]))
    return Profile(replace(run, ranks=(replace(rank, steps=(step,), step_origin="annotation"),)))


def test_launch_and_kernel_delays_are_those_that_hta_publishes(traces: Path) -> None:
    profile = simple_add(traces)
    launched, queued = delay_us(profile, EdgeKind.LAUNCH), delay_us(profile, EdgeKind.STREAM)
    # HTA measures a launch from the start of the call (27 us). Here it begins when the call has ended, 15 us later:
    # the call itself is the host's time.
    links = profile.rank(0).launches.set_index("device_row")
    call_us = (links["call_end_ns"] - links["call_start_ns"]) / 1000
    fft = launched[launched["name"].str.startswith("void fft2d_r2c_32x32<float, false, 0u")].iloc[0]
    assert fft["delay_us"] == 12
    assert fft["delay_us"] + call_us[fft["row"]] == 27
    gemm = queued[queued["name"].str.startswith("ampere_gcgemm_64x64_nt")].iloc[0]
    assert gemm["delay_us"] == 7


def delay_us(profile: Profile, kind: EdgeKind) -> pd.DataFrame:
    """Recorded time from what an edge of that kind waits for to the device operation's start."""
    graph = graph_of(profile)
    nodes, edges = graph.nodes, graph.edges
    mine = np.flatnonzero(edges.kind == kind)
    target = edges.target[mine]
    delay = (nodes.begin_ns[target] - nodes.end_ns[edges.source[mine]]) / 1000
    rows = nodes.row[target]
    return pd.DataFrame({"row": rows, "name": profile.rank(0).names(rows), "delay_us": delay})


def test_a_host_bound_pass_has_all_its_operators_on_the_path(traces: Path) -> None:
    profile = simple_add(traces)
    rank = profile.rank(0)
    step = rank.rank.steps[0]
    inside = (rank.start >= step.start_ns) & (rank.end <= step.end_ns)
    rows = critical_path(profile).segments["row"]
    on_path = np.unique(rows[rows >= 0])
    operators = np.flatnonzero(inside & (rank.kind == EventKind.OPERATOR))
    assert set(operators) <= set(on_path)
    # HTA counts 159 events; here it is the 88 operators and 79 runtime calls, which all lie on the one thread.
    assert len(on_path) == 167


def test_waits_between_streams_are_followed_as_recorded(traces: Path) -> None:
    profile = real_profile(traces / "hta/critical_path_cuda_event_sync_multi_stream.json.gz")
    graph = graph_of(profile)
    (edge,) = np.flatnonzero(graph.edges.kind == EdgeKind.EVENT)
    tracks = profile.rank(0).events.tracks["stream"].to_numpy()
    nodes = graph.nodes
    assert tracks[nodes.track[graph.edges.source[edge]]] == 20
    assert tracks[nodes.track[graph.edges.target[edge]]] == 24


def test_an_event_wait_of_the_host_puts_the_kernel_on_the_path(traces: Path) -> None:
    profile = real_profile(traces / "hta/critical_path_cuda_event_sync.json.gz")
    segments = critical_path(profile).segments
    kernels = segments[segments["what"] == "computation"]
    following = segments.loc[kernels.index + 1]
    names = profile.rank(0).events.frame["name"].astype(str)
    assert "cudaEventSynchronize" in {names[row] for row in following["row"] if row >= 0}
