"""Which dependencies the graph finds: between streams, threads and ranks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.synthetic import RankBuilder, profile_of, to_ns
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.whatif.build import graph_of
from tools.whatif.change import Omit, Scale
from tools.whatif.graph import EdgeKind, Graph
from tools.whatif.predict import predict


def spans(rank: int, track: int, *spans_us: tuple[float, float], factor: float = 0.0) -> Scale:
    """A change of the time inside spans of one track."""
    return Scale(rank, track, np.array([[to_ns(a), to_ns(b)] for a, b in spans_us], dtype=np.int64), factor)


def pairs(graph: Graph, profile: Profile, kind: EdgeKind) -> set[tuple[str, str]]:
    """Names of the events that edges of a kind connect (single rank)."""
    names = profile.rank(0).events.frame["name"].astype(str).tolist()
    edges, row = graph.edges, graph.nodes.row
    chosen = edges.kind == kind
    return {
        (names[row[source]], names[row[target]])
        for source, target in zip(edges.source[chosen], edges.target[chosen], strict=True)
    }


def two_streams(*, recorded: bool) -> RankBuilder:
    """A kernel on one stream, and one on another that waits for it through an event."""
    rank = RankBuilder()
    side = rank.device_stream(20)
    rank.kernel("producer", start_us=10, duration_us=500, call_us=0)
    rank.runtime("cudaEventRecord", 3, 1, correlation=900)
    rank.runtime("cudaStreamWaitEvent", 5, 1, correlation=901)
    rank.kernel("consumer", start_us=512, duration_us=100, call_us=8, stream=side)
    rank.runtime("cudaDeviceSynchronize", 12, 610)
    if recorded:
        handle = rank.event(EventKind.SYNC, "Stream Wait Event", 5, 1, track=side, correlation=901)
        rank.detail(
            "syncs",
            handle,
            sync_kind="Stream Wait Event",
            stream=20,
            wait_on_stream=7,
            wait_on_record_correlation=900,
            event=1,
        )
    rank.step(0, 0, 700)
    return rank


def test_a_recorded_event_wait_is_followed() -> None:
    profile = profile_of(two_streams(recorded=True))
    assert pairs(graph_of(profile), profile, EdgeKind.EVENT) == {("producer", "consumer")}
    assert predict(profile, (spans(0, 1, (10, 510)),)).saving_ms == pytest.approx(0.492, abs=0.012)


def test_a_wait_that_was_not_recorded_is_inferred_from_the_order_of_events() -> None:
    profile = profile_of(two_streams(recorded=False))
    assert pairs(graph_of(profile), profile, EdgeKind.INFERRED) == {("producer", "consumer")}


def test_an_operation_held_for_no_reason_is_said_to_be_unexplained() -> None:
    rank = RankBuilder()
    for number in range(6):
        rank.kernel("kernel", start_us=number * 100 + 8, duration_us=10, call_us=number * 100)
    rank.kernel("held", start_us=900, duration_us=10, call_us=600)
    rank.runtime("cudaDeviceSynchronize", 604, 310)
    rank.step(0, 0, 1000)
    graph = graph_of(profile_of(rank))
    held = int(np.argmax(graph.residual_ns))
    assert graph.nodes.begin_ns[held] == to_ns(900)
    assert graph.residual_ns[held] == pytest.approx(to_ns(292), abs=to_ns(1))


def test_a_collective_waits_for_what_its_thread_had_computed() -> None:
    rank = RankBuilder()
    side = rank.device_stream(20)
    rank.kernel("gradient", start_us=10, duration_us=200, call_us=0)
    rank.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start_us=500, duration_us=100, call_us=490, stream=side)
    rank.runtime("cudaDeviceSynchronize", 494, 110)
    rank.step(0, 0, 700)
    profile = profile_of(rank)
    found = pairs(graph_of(profile), profile, EdgeKind.INFERRED)
    assert found == {("gradient", "ncclDevKernel_AllReduce_Sum_f32_RING_LL")}
    # Without 400 us of host time before the collective, it cannot start before the gradient is there at 210 us.
    assert predict(profile, (spans(0, 0, (20, 490)),)).saving_ms == pytest.approx(0.290, abs=0.015)


def with_autograd() -> RankBuilder:
    """The main thread works for 1000 us, the autograd thread for 1000 us, the main thread again; kernels are short."""
    rank = RankBuilder()
    autograd = rank.host_thread("autograd")
    for step in range(3):
        at = step * 3000.0
        rank.operator("forward", at, 1000)
        rank.kernel("forward_kernel", start_us=at + 20, duration_us=5, call_us=at + 10)
        rank.operator("backward", at + 1050, 1000, track=autograd)
        rank.kernel("backward_kernel", start_us=at + 1100, duration_us=5, call_us=at + 1090, host_track=autograd)
        rank.operator("optimizer", at + 2100, 800)
        rank.step(step, at, at + 3000)
    return rank


def test_the_main_thread_waits_for_the_autograd_thread_and_the_other_way_round() -> None:
    rank = with_autograd()
    profile = profile_of(rank)
    graph = graph_of(profile)
    assert (graph.edges.kind == EdgeKind.HANDOVER).sum() == 6
    forward = spans(0, 0, *[(step * 3000.0 + 100, step * 3000.0 + 900) for step in range(3)])
    backward = spans(0, 2, *[(step * 3000.0 + 1100, step * 3000.0 + 1900) for step in range(3)])
    assert predict(profile, (forward,)).saving_ms == pytest.approx(0.8)
    assert predict(profile, (backward,)).saving_ms == pytest.approx(0.8)
    assert predict(profile, (forward, backward)).saving_ms == pytest.approx(1.6)


def test_threads_that_work_at_the_same_time_do_not_wait_for_each_other() -> None:
    rank = RankBuilder()
    other = rank.host_thread("prefetch")
    for number in range(10):
        rank.operator("work", number * 200, 150)
        rank.operator("prefetch", number * 200 + 30, 160, track=other)
        rank.copy("Memcpy", start_us=number * 200 + 60, duration_us=5, call_us=number * 200 + 50, host_track=other)
    rank.step(0, 0, 2000)
    profile = profile_of(rank)
    busy = spans(0, other, *[(n * 200.0 + 60, n * 200.0 + 180) for n in range(10)])
    assert predict(profile, (busy,)).saving_ms == 0.0


def straggling_pair(late_us: float = 400.0) -> tuple[RankBuilder, RankBuilder]:
    """Two ranks that meet in an all-reduce; rank 1 comes late every step. The transfer lasts 50 us."""
    ranks = (RankBuilder(rank=0), RankBuilder(rank=1))
    for number, rank in enumerate(ranks):
        side = rank.device_stream(20)
        for step in range(4):
            at = step * (200.0 + late_us)
            ready = at + 100 + (late_us if number else 0.0)
            rank.operator("forward", at, ready - at - 1)
            end = at + 100 + late_us + 10 + 50
            rank.kernel("ncclAllReduce", ready + 10, end - ready - 10, call_us=ready, stream=side)
            rank.runtime("cudaDeviceSynchronize", ready + 5, end - ready)
            rank.step(step, at, at + 200 + late_us)
    return ranks


def test_without_its_own_excess_the_late_rank_no_longer_holds_the_others() -> None:
    profile = profile_of(*straggling_pair())
    assert (graph_of(profile).edges.kind == EdgeKind.COLLECTIVE).sum() == 4 * (2 + 2 + 2)  # to, from, around
    excess = spans(1, 0, *[(step * 600.0 + 50, step * 600.0 + 450) for step in range(4)])
    assert predict(profile, (excess,)).saving_ms == pytest.approx(0.4, abs=1e-3)


def test_shortening_the_wait_inside_a_collective_gives_nothing() -> None:
    profile = profile_of(*straggling_pair())
    waiting = spans(0, 2, *[(step * 600.0 + 110, step * 600.0 + 510) for step in range(4)])
    assert predict(profile, (waiting,)).saving_ms == pytest.approx(0.0, abs=1e-3)


def test_a_faster_transfer_serves_all_ranks() -> None:
    profile = profile_of(*straggling_pair())
    transfer = spans(0, 2, *[(step * 600.0 + 510, step * 600.0 + 560) for step in range(4)], factor=0.2)
    assert predict(profile, (transfer,)).saving_ms == pytest.approx(0.04, abs=1e-3)


def test_ranks_do_not_wait_for_each_other_in_a_collective_that_is_left_out() -> None:
    profile = profile_of(*straggling_pair())
    moving = [np.flatnonzero(profile.rank(rank).kind == EventKind.KERNEL) for rank in (0, 1)]
    # The late rank binds: its 50 us of transfer go, its own 400 us stay.
    both = predict(profile, tuple(Omit(rank, rows) for rank, rows in enumerate(moving)))
    assert both.saving_ms == pytest.approx(0.05, abs=3e-3)
    excess = spans(1, 0, *[(step * 600.0 + 50, step * 600.0 + 450) for step in range(3)])  # the last one stays
    alone = predict(profile, (excess,)).saving_ms
    apart = predict(profile, (excess, *(Omit(rank, rows) for rank, rows in enumerate(moving)))).saving_ms
    assert [alone, apart] == pytest.approx([0.3, 0.35], abs=3e-3)


def test_the_cautious_view_leaves_half_of_the_collectives_out() -> None:
    part = Omit(0, np.array([4, 8, 2, 6])).cautious()
    assert part.rows.tolist() == [4, 8]
    assert part.hopeful() is part


def gloo_pair() -> tuple[RankBuilder, RankBuilder]:
    """Two ranks without a device; rank 1 loads data for 5 ms a step, rank 0 waits for it inside the all-reduce."""
    ranks = (RankBuilder(rank=0, device=None), RankBuilder(rank=1, device=None))
    for number, rank in enumerate(ranks):
        worker = rank.host_thread("pt_gloo_runloop")
        loading = 5000.0 if number else 100.0
        for step in range(4):
            at = step * 20_000.0
            rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, loading)
            rank.operator("backward", at + loading, 8000)
            rank.operator("c10d::allreduce_", at + loading + 7900, 50)
            end = at + 5000 + 8000 + 2000
            rank.annotation("gloo:all_reduce", at + loading + 8000, end - at - loading - 8000, track=worker)
            rank.operator("copy", end + 20, 100)
            rank.step(step, at, at + 20_000)
    return ranks


def test_on_host_collectives_the_waiting_rank_follows_the_late_one() -> None:
    profile = profile_of(*gloo_pair())
    assert (graph_of(profile).edges.kind == EdgeKind.SYNC).sum() == 8
    loader = spans(1, 0, *[(step * 20_000.0, step * 20_000.0 + 5000) for step in range(4)])
    # Rank 1 saves 5 ms, but rank 0, which loads for 0.1 ms itself, then arrives last.
    assert predict(profile, (loader,)).saving_ms == pytest.approx(4.9, abs=0.01)


def test_a_collective_is_over_when_its_waiter_resumes_even_if_its_span_closes_later() -> None:
    rank = gloo_pair()[0]
    late = rank.host_thread("pt_gloo_runloop 2")
    for step in range(4):
        at = step * 20_000.0
        # The thread is idle for 2 ms while this one runs, goes on, and only then does the worker close the span.
        rank.operator("c10d::allreduce_", at + 15_130, 20)
        rank.annotation("gloo:all_reduce", at + 15_160, 3000, track=late)
        rank.operator("copy", at + 17_160, 100)
    profile = profile_of(rank)
    graph = graph_of(profile)
    ended = graph.nodes.end_ns[graph.nodes.track == late]
    assert ended.tolist() == [to_ns(step * 20_000 + 17_160) for step in range(4)]
    rest = spans(0, late, *[(step * 20_000.0 + 15_160, step * 20_000.0 + 17_160) for step in range(4)])
    assert predict(profile, (rest,)).saving_ms == pytest.approx(2.0, abs=0.02)


def test_host_work_inside_a_copying_call_is_host_time() -> None:
    rank = RankBuilder()
    for number in range(6):
        at = number * 1000.0
        rank.kernel("gemm", start_us=at + 8, duration_us=20, call_us=at)
        # The call copies to a staging buffer for 500 us before the device starts.
        rank.copy("Memcpy HtoD (Pageable -> Device)", at + 600, 50, call_us=at + 100, call_duration_us=552)
        rank.step(number, at, at + 1000)
    profile = profile_of(rank)
    staging = spans(0, 0, *[(number * 1000.0 + 100, number * 1000.0 + 590) for number in range(6)])
    assert predict(profile, (staging,)).saving_ms == pytest.approx(0.49, abs=0.005)


def test_launches_into_a_full_queue_wait_for_the_device() -> None:
    rank = RankBuilder()
    for number in range(400):
        # The first 200 are launched at once, then each launch returns when one more kernel has ended.
        waits = number >= 200
        call = 2.0 * number if not waits else 415 + (number - 200) * 100.0
        length = 97.0 if waits else 1.0
        rank.kernel("k", start_us=10 + number * 100.0, duration_us=100, call_us=call, call_duration_us=length)
    rank.runtime("cudaDeviceSynchronize", 20_420, 19_600)
    rank.step(0, 0, 40_100)
    profile = profile_of(rank)
    calls = spans(0, 0, *[(415 + n * 100.0, 512 + n * 100.0) for n in range(200)])
    assert predict(profile, (calls,)).saving_ms == pytest.approx(0.0, abs=0.2)
    assert predict(profile, (spans(0, 1, (10, 40_010), factor=0.5),)).saving_ms == pytest.approx(20.0, abs=0.3)
