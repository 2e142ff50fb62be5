"""The forward that runs again inside the backward."""

from __future__ import annotations

import pytest

from tests.asked import ask
from tests.synthetic import RankBuilder, profile_of
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.whatif.predict import predict

NODE = "autograd::engine::evaluate_function: GeluBackward0"


def checkpointed(device: bool = False, again: bool = True) -> Profile:
    """Two steps of 1000 us; in each one node of the backward computes a convolution again, for 100 us."""
    rank = RankBuilder() if device else RankBuilder(device=None)
    for step in range(2):
        at = 1000.0 * step
        rank.operator("aten::conv2d", at, 100)
        rank.operator(NODE, at + 300, 300)
        if again:
            rank.operator("aten::conv2d", at + 320, 80)
            rank.operator("aten::batch_norm", at + 400, 20)
        rank.operator("aten::gelu_backward", at + 420, 150)
        if device:
            rank.kernel("conv", at + 340, 200, call_us=at + 330)
            rank.kernel("gelu", at + 545, 100, call_us=at + 430)
        rank.step(step, at, at + 1000)
    return profile_of(rank)


def test_a_forward_inside_a_node_of_the_backward_is_recomputation() -> None:
    profile = checkpointed()
    check = ask(profile, "memory.recomputation")
    assert check.status == "found"
    assert (check.findings[0].cause, check.findings[0].mechanism) == ("memory_pressure", "recomputation")
    assert measure(profile, "recomputed_ms", rank=0).value == pytest.approx(0.1)
    assert measure(profile, "recomputed_regions", rank=0).value == 1
    assert predict(profile, check.findings[0].change).saving_ms == pytest.approx(0.1, rel=0.05)


def test_on_a_device_the_kernels_launched_there_count() -> None:
    assert measure(checkpointed(device=True), "recomputed_ms", rank=0).value == pytest.approx(0.2)


def test_a_backward_of_its_own_is_clean() -> None:
    assert ask(checkpointed(again=False), "memory.recomputation").status == "clean"


def test_without_a_backward_it_cannot_be_judged() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::conv2d", 0, 100)
    rank.step(0, 0, 1000)
    assert ask(profile_of(rank), "memory.recomputation").status == "cannot_answer"
