"""Gradients, link and present buckets of a made-up run of two ranks, and runs that lack something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.errors import InputError
from tools.run.links import launch_starts
from tools.sources.load import load_run
from tools.views.communication.gradient_sync import gradient_passes
from tools.views.profile import Profile
from tools.whatif.planners.gradient_buckets import BucketPlan
from tools.whatif.planners.recorded_gradients import (
    like_the_last,
    plan_run,
    ready_ns,
    recorded_gradients,
    with_bucket_cap,
)

ELEMENTS = (1_000_000, 250_000, 250_000, 500_000)  # float32, in order of readiness


def recorded(
    buckets: tuple[tuple[int, ...], ...] = ((0,), (1, 2), (3,)), shapes: bool = True, ranks: int = 2
) -> Profile:
    """Forward 10 ms, then a gradient every 2 ms (3 ms on rank 1); an all-reduce takes 1 ms and 1 ms per MB."""
    built = []
    for number in range(ranks):
        rank = RankBuilder(number, device=None)
        work = rank.host_thread("gloo")
        for step in range(3):
            at = begun = 100_000.0 * step
            rank.annotation("DistributedDataParallel.forward", at, 10_000)
            rank.operator("aten::linear", at, 10_000)
            ready = {}
            for place, elements in enumerate(ELEMENTS):
                ready[place] = at + 10_000 + (2_000 + 1_000 * number) * (place + 1)
                span = rank.operator("torch::autograd::AccumulateGrad", ready[place] - 10, 10)
                if shapes:
                    rank.detail("operators", span, dims=f"[[{elements}]]", types='["float"]')
            free = 0.0
            for members in buckets:
                size = sum(ELEMENTS[each] for each in members)
                last = at + 10_000 + 3_000 * (members[-1] + 1)  # rank 1 is ready last
                rank.operator("c10d::allreduce_", ready[members[-1]] + 1, 10)
                end = max(last + 50, free) + 1_000 + 4e-3 * size
                start = max(ready[members[-1]] + 50, free)
                span = rank.annotation("gloo:all_reduce", start, end - start, track=work)
                rank.detail("operators", span, dims=f"[[{size}]]", types='["float"]')
                free = end
            rank.annotation("Optimizer.step#SGD.step", free + 500, 1_500)
            rank.operator("aten::add_", free + 500, 1_500)
            rank.step(step, begun, free + 2_000)
        built.append(rank)
    return profile_of(*built)


def test_gradients_link_and_buckets_are_those_of_the_run() -> None:
    found = recorded_gradients(recorded())
    assert [each.ready_ms for each in found.gradients] == pytest.approx([13, 16, 19, 22])
    assert [each.bytes for each in found.gradients] == [4 * each for each in ELEMENTS]
    assert found.current == [[0], [1, 2], [3]]
    assert (found.link.alpha_ms, found.link.beta_ms_per_byte) == pytest.approx((1.0, 1e-6), rel=1e-3)
    assert found.update_ms == pytest.approx(2.0)


def test_the_replay_of_the_present_buckets_is_the_recorded_step() -> None:
    profile = recorded()
    made = plan_run(profile)
    assert made.before_ms == pytest.approx(profile.mean_step_ms, rel=0.01)
    assert isinstance(made.plan, BucketPlan)
    assert made.before_ms is not None
    assert made.after_ms <= made.before_ms
    assert "The recorded step takes 27.05 ms" in made.assumptions[-1]


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (lambda: recorded(buckets=((0, 1, 2, 3),)), "at least two sizes"),
        (lambda: recorded(shapes=False), "record_shapes"),
        (lambda: recorded(ranks=1), "all ranks are traced"),
        (lambda: recorded(buckets=((0,), (3,))), "do not hold all gradients"),
        (lambda: recorded(buckets=((1,), (0, 2), (3,))), "do not hold runs of the gradients"),
    ],
)
def test_what_a_run_lacks_is_named(profile: object, message: str) -> None:
    assert callable(profile)
    with pytest.raises(InputError, match=message):
        recorded_gradients(profile())


def recorded_on_device(ranks: int = 2) -> Profile:
    """The same as kernels that the host launches in the first ms of the step; all-reduces on a stream of their own."""
    built = []
    for number in range(ranks):
        rank = RankBuilder(number)
        network = rank.device_stream(20)
        for step in range(3):
            at = 100_000.0 * step
            rank.annotation("DistributedDataParallel.forward", at, 100)
            rank.kernel("gemm forward", at + 10, 9_990, call_us=at + 2)
            ready, free = at + 10_000, 0.0
            for place, elements in enumerate(ELEMENTS):
                host, length = at + 200 + 100 * place, 2_000 + 1_000 * number
                rank.kernel("gemm backward", ready, length, call_us=host)
                span = rank.operator("torch::autograd::AccumulateGrad", host + 10, 10)
                rank.detail("operators", span, dims=f"[[{elements}]]", types='["float"]')
                ready += length
                if place == 1:
                    continue  # waits for the next one
                size = sum(ELEMENTS[1:3]) if place == 2 else elements
                end = max(at + 10_000 + 3_000 * (place + 1) + 50, free) + 1_000 + 4e-3 * size
                start = max(ready + 50, free)
                sent = rank.kernel("ncclDevKernel_AllReduce_Sum_f32", start, end - start, host + 30, stream=network)
                shape = {"in_elements": size, "out_elements": size, "dtype": "Float"}
                group = {"collective": "allreduce", "group": "0", "group_size": ranks, "ranks": "[0, 1]"}
                rank.detail("collectives", sent, **shape, **group)
                free = end
            rank.annotation("Optimizer.step#SGD.step", at + 800, 50)
            rank.kernel("sgd", free + 500, 1_500, call_us=at + 810)
            rank.step(step, at, free + 2_000)
        built.append(rank)
    return profile_of(*built)


def test_gradients_on_a_device_are_ready_when_the_kernels_before_them_end() -> None:
    profile = recorded_on_device()
    found = recorded_gradients(profile)
    assert [each.ready_ms for each in found.gradients] == pytest.approx(
        [12.992, 15.992, 18.992, 21.992]
    )  # the device begins 8 us behind
    assert [each.bytes for each in found.gradients] == [4 * each for each in ELEMENTS]
    assert found.current == [[0], [1, 2], [3]]
    assert (found.link.alpha_ms, found.link.beta_ms_per_byte) == pytest.approx((1.0, 1e-6), rel=1e-3)
    assert found.update_ms == pytest.approx(2.008)
    assert plan_run(profile).before_ms == pytest.approx(profile.mean_step_ms, rel=0.01)


def test_on_a_device_other_buckets_save_neither_host_time_nor_shared_cores() -> None:
    found = with_bucket_cap(recorded_on_device(), 25)
    assert (found.launch_ms, found.shared_ms) == (0.0, 0.0)
    assert (found.buckets_before, found.buckets_after) == (3, 1)
    last_ms, sizes_ms = 22.0, 4e-6 * sum(ELEMENTS)
    assert found.after_ms == pytest.approx(last_ms + 1.0 + sizes_ms + 2.0, rel=1e-3)


def test_one_rank_with_a_device_lacks_the_transfer_times() -> None:
    with pytest.raises(InputError, match="all ranks are traced"):
        recorded_gradients(recorded_on_device(ranks=1))


def test_recorded_all_reduces_of_a_device_start_when_their_last_gradient_is_ready(traces: Path) -> None:
    profile = Profile(load_run([traces / "tracelens/mi300_resnet_act_checkpoint.json.gz"]))
    view = profile.ranks[0]
    given = view.in_steps(np.flatnonzero(view.named("gradient_accumulated")))
    ready = ready_ns(view, given)
    reduced = gradient_passes(profile, view.rank.rank)["row"].to_numpy(np.int64)
    asked = launch_starts(view.events, reduced)
    last = np.searchsorted(view.end[given], asked) - 1
    waited_us = (view.start[reduced] - ready[last]) / 1e3
    assert len(reduced) == 6
    assert (waited_us > 0).all()
    assert waited_us[::2] == pytest.approx(15, abs=3)  # the first of each step finds the network free
    assert ((ready - view.end[given]) / 1e6 > 20).all()  # while the host is more than 20 ms ahead


def one_of_several(waits_us: tuple[float, ...], shapes: bool = False, lag_us: float = 30_000) -> Profile:
    """Rank 0 of 4 on a device that lags behind: all-reduces of 1, 2 and 8 MB at once behind 15 ms of kernels.

    They take 100 us and 50 us per MB, the first one a wait of 5 ms, the others of each step ``waits_us`` more.
    """
    rank = RankBuilder(0)
    network = rank.device_stream(20)
    for step in range(4):
        host, at = 50_000.0 * step, 50_000.0 * step + lag_us
        rank.annotation("DistributedDataParallel.forward", host, 100)
        rank.kernel("gemm forward", at, 10_000, call_us=host + 2)
        free = at + 15_000
        for place, elements in enumerate((250_000, 500_000, 2_000_000)):
            asked = host + 300 + 100 * place
            rank.kernel("gemm backward", at + 10_000 + 1_667 * place, 1_667, call_us=asked - 20)
            span = rank.operator("torch::autograd::AccumulateGrad", asked - 10, 5)
            if shapes:
                rank.detail("operators", span, dims=f"[[{elements}]]", types='["float"]')
            length = 100 + 50 * 4e-6 * elements + (5_000 if place == 0 else waits_us[step])
            sent = rank.kernel("ncclDevKernel_AllReduce_Sum_f32", free + 5, length, asked, stream=network)
            shape = {"in_elements": elements, "out_elements": elements, "dtype": "Float"}
            group = {"collective": "allreduce", "group": "0", "group_size": 4, "ranks": "[0, 1, 2, 3]"}
            rank.detail("collectives", sent, **shape, **group)
            free += 5 + length
        rank.annotation("Optimizer.step#SGD.step", host + 1_000, 50)
        rank.kernel("sgd", free + 100, 900, call_us=host + 1_010)
        rank.step(step, host, host + 50_000)
    return profile_of(rank)


def test_where_ranks_are_missing_the_link_is_that_of_all_reduces_that_follow_one_another() -> None:
    found = recorded_gradients(one_of_several((0.0,) * 4, shapes=True))
    assert (found.link.alpha_ms, found.link.beta_ms_per_byte) == pytest.approx((0.1, 5e-8), rel=1e-3)
    made = plan_run(one_of_several((0.0,) * 4, shapes=True))
    assert any("Not all ranks were traced" in each for each in made.assumptions)


def test_where_those_waited_too_no_link_is_taken_from_them() -> None:
    with pytest.raises(InputError, match="add the traces of the other ranks"):
        recorded_gradients(one_of_several((0.0, 900.0, 100.0, 2_000.0), shapes=True))


def test_without_shapes_the_all_reduces_are_the_pieces_and_are_only_merged() -> None:
    profile = one_of_several((0.0,) * 4)
    with pytest.raises(InputError, match="no gradients with shapes"):
        recorded_gradients(profile)
    made = plan_run(profile)
    assert isinstance(made.plan, BucketPlan)
    # Ready 11.667, 13.334, 15.001 ms behind the first kernel; the last takes 0.5 ms, the others are through then.
    assert made.plan.buckets == [[0, 1], [2]]
    tail_ms = 50.0 - (15.0 + 0.015 + 5.0 + 0.15 + 0.2 + 0.5)  # from the last all-reduce to the next first kernel
    assert made.before_ms == pytest.approx(15.001 + 0.5 + tail_ms, abs=0.001)
    assert made.after_ms == pytest.approx(made.before_ms)
    assert made.plan.ddp.bucket_cap_mb is None
    assert any("present buckets are merged" in each for each in made.assumptions)


def test_passes_that_exchange_other_sizes_than_the_last_are_left_out() -> None:
    profile = one_of_several((0.0,) * 4)
    passes = gradient_passes(profile, 0)
    odd = passes.copy()
    odd.loc[0, "bytes"] = -1
    assert len(like_the_last(odd)) == len(passes) - 3
    assert len(like_the_last(passes)) == len(passes)
