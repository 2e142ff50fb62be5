"""Costs and sizes of expert layers of a made-up run of two ranks, and runs that lack something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.synthetic import V100, RankBuilder, profile_of
from tools.errors import InputError
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.planners.expert_degree import DegreePlan
from tools.whatif.planners.recorded_experts import plan_run, recorded_experts

RECORDED = Path(__file__).parents[4] / "evals/lab/recorded"
WIDTH = 256
LAYERS = (1024, 4096)  # tokens that each layer's experts get on a rank
ALPHA_MS, BETA_MS_PER_BYTE = 0.5, 2e-6
EXPERT_ALPHA_MS, EXPERT_BETA_MS = 0.2, 1e-8


def bytes_of(tokens: int) -> int:
    """Of one all-to-all in float32."""
    return 4 * tokens * WIDTH


def operations_of(tokens: int) -> int:
    """Of one square matrix product."""
    return 2 * tokens * WIDTH * WIDTH


def recorded(
    tokens: Sequence[int] = LAYERS, shapes: bool = True, ranks: int = 2, pairs: bool = True, on_device: bool = False
) -> Profile:
    """Per layer: attention for 1 ms, tokens to the experts, a matrix product, tokens back; then the backward pass."""
    built = []
    for number in range(ranks):
        rank = RankBuilder(number, device=V100 if on_device else None)
        now = 0.0

        def exchange(count: int, now: float, rank: RankBuilder = rank) -> float:
            us = 1000 * (ALPHA_MS + BETA_MS_PER_BYTE * bytes_of(count))
            if on_device:
                rank.operator("c10d::alltoall_base_", now, 5)
                sent = rank.kernel("ncclDevKernel_SendRecv", now + 5, us, now + 1)
                group = {"collective": "all_to_allv", "group": "0", "group_size": ranks, "ranks": "[0, 1]"}
                elements = {"in_elements": count * WIDTH, "out_elements": count * WIDTH, "dtype": "Float"}
                rank.detail("collectives", sent, **group, **elements)
                return now + us + 6
            span = rank.annotation("gloo:all_to_all", now, us)
            rank.detail("operators", span, dims=f"[[{count},{WIDTH}]]", types='["float"]')
            return now + us

        def multiply(name: str, us: float, now: float, count: int, rank: RankBuilder = rank) -> float:
            dims = [[count, WIDTH], [WIDTH, WIDTH]] if shapes else None
            rank.operator(name, now, 3 if on_device else us, dims=dims, types=["float", "float"] if shapes else None)
            if on_device:
                rank.kernel("gemm", now + 2, us, call_us=now + 1)
            return now + us + (4 if on_device else 0)

        for step in range(3):
            begun = now
            for count in tokens:
                now = multiply("aten::mm", 1000, now, 64)
                now = exchange(count, now)
                us = 1000 * (EXPERT_ALPHA_MS + EXPERT_BETA_MS * operations_of(count))
                now = multiply("aten::mm", us, now, count)
                now = exchange(count, now) if pairs else now
            for count in reversed(tokens):  # the backward pass is left out, whatever it exchanges
                node = now
                now = exchange(count, now + 1)
                name = "autograd::engine::evaluate_function: ExchangeBackward"
                rank.operator(name, node, now - node + 1)
                now += 2
            rank.step(step, begun, now)
        built.append(rank)
    return profile_of(*built)


@pytest.mark.parametrize("on_device", [False, True])
def test_costs_and_sizes_are_those_of_the_run(on_device: bool) -> None:
    found = recorded_experts(recorded(on_device=on_device))
    assert found.all_to_all.alpha_ms == pytest.approx(ALPHA_MS, rel=0.02)
    assert found.all_to_all.beta_ms_per_byte == pytest.approx(BETA_MS_PER_BYTE, rel=0.02)
    assert found.all_to_all.bytes == sum(map(bytes_of, LAYERS)) / 2
    assert found.experts.alpha_ms == pytest.approx(EXPERT_ALPHA_MS, rel=0.05)
    assert found.experts.beta_ms_per_operation == pytest.approx(EXPERT_BETA_MS, rel=0.02)
    assert found.experts.operations == sum(map(operations_of, LAYERS)) / 2


def test_the_degree_is_the_best_of_the_formula() -> None:
    made = plan_run(recorded())
    assert isinstance(made.plan, DegreePlan)
    size, operations = (sum(map(each, LAYERS)) / 2 for each in (bytes_of, operations_of))

    def time_ms(degree: int) -> float:
        exchange = ALPHA_MS + BETA_MS_PER_BYTE * size / degree
        expert = EXPERT_ALPHA_MS + EXPERT_BETA_MS * operations / degree
        if degree == 1:
            return 2 * exchange + expert
        return max(2 * degree * exchange, 2 * exchange + degree * expert)

    assert made.plan.degree == min(range(1, 17), key=time_ms)
    assert made.before_ms == pytest.approx(time_ms(1), rel=0.02)
    assert made.after_ms == pytest.approx(time_ms(made.plan.degree), rel=0.02)
    assert "means of all ranks and layers" in made.assumptions[-1]


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (lambda: recorded(tokens=()), "no all-to-all of known size"),
        (lambda: recorded(ranks=1), "only where all ranks are traced"),
        (lambda: recorded(tokens=(1024, 1024)), "all-to-alls have one size"),
        (lambda: recorded(shapes=False), "record_shapes=True"),
        (lambda: recorded(tokens=(1024, 2048, 4096), pairs=False), "in pairs"),
    ],
)
def test_what_a_run_lacks_is_named(profile: Callable[[], Profile], message: str) -> None:
    with pytest.raises(InputError, match=message):
        recorded_experts(profile())


@pytest.mark.parametrize(
    ("run", "message"),
    [("slow", "does not follow their size"), ("fixed", "nearly as many operations in every pass")],
)
def test_recorded_experts_that_say_too_little_are_refused(run: str, message: str) -> None:
    profile = Profile(load_run([RECORDED / "hot_experts/experts-strong" / run]))
    with pytest.raises(InputError, match=message):
        recorded_experts(profile)
