"""Gradients, link and present buckets of a made-up run of two ranks, and runs that lack something."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.errors import InputError
from tools.views.profile import Profile
from tools.whatif.planners.gradient_buckets import BucketPlan
from tools.whatif.planners.recorded_gradients import plan_run, recorded_gradients

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


def test_a_run_with_a_device_is_refused() -> None:
    rank = RankBuilder(0)
    rank.kernel("gemm", 20, 100, call_us=10)
    rank.step(0, 0, 200)
    with pytest.raises(InputError, match="when their kernels end"):
        recorded_gradients(profile_of(rank))
