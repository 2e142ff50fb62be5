"""Pipeline stages and memory against every partition and action."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from evals.planners.exhaustive import best_pipeline_ms, stage_ms
from tools.whatif.planners.pipeline_memory import Input, PipelinePlan, plan
from tools.whatif.planners.record import NoPlanError
from tools.whatif.planners.stage_memory import INFINITE, Budget, LayerCost, StageLimits, best_actions, bound_ms


@st.composite
def inputs(draw: st.DrawFn, most_layers: int = 6) -> Input:
    count = draw(st.integers(1, most_layers))
    number = st.one_of(st.integers(0, 4), st.floats(0, 8))
    kinds = [
        {
            "forward_ms": draw(number),
            "backward_ms": draw(number),
            "activation_bytes": draw(st.integers(0, 60)),
            "weight_bytes": draw(st.integers(0, 20)),
            "optimizer_bytes": draw(st.integers(0, 40)),
        }
        for _ in range(draw(st.integers(1, count)))
    ]
    return Input.model_validate(
        {
            "layers": [kinds[each % len(kinds)] for each in range(count)],
            "stages": draw(st.integers(1, min(3, count))),
            "device_memory_bytes": draw(st.integers(40, 400)),
            "host_link_bytes_per_ms": draw(st.floats(0.5, 60)),
        }
    )


@seed(2)
@settings(max_examples=150, deadline=None)
@given(inputs())
def test_the_slowest_stage_is_that_of_exhaustive_search_and_memory_holds(given_input: Input) -> None:
    best_ms = best_pipeline_ms(given_input)
    if best_ms == INFINITE:
        with pytest.raises(NoPlanError, match="more"):
            plan(given_input)
        return
    made = plan(given_input)
    assert isinstance(made.plan, PipelinePlan)
    assert made.after_ms == pytest.approx(best_ms, rel=1e-9, abs=1e-9)
    assert made.gap_ms == pytest.approx(0, abs=1e-6)
    assert max(made.plan.stage_memory_bytes) <= given_input.device_memory_bytes
    behind = [*made.plan.first_layers[1:], len(given_input.layers)]
    for stage, first in enumerate(made.plan.first_layers):
        actions = made.plan.actions[first : behind[stage]]
        assert made.plan.stage_ms[stage] == pytest.approx(stage_ms(given_input, stage, first, behind[stage], actions))


LAYER = {"forward_ms": 1.0, "backward_ms": 2.0, "activation_bytes": 10, "weight_bytes": 5, "optimizer_bytes": 5}


def test_what_is_missing_is_named_with_its_size() -> None:
    given_input = Input.model_validate(
        {"layers": [LAYER] * 4, "stages": 2, "device_memory_bytes": 25, "host_link_bytes_per_ms": 1.0}
    )
    with pytest.raises(NoPlanError, match=r"device_memory_bytes = 25: .* needs 30 bytes, 5 more"):
        plan(given_input)


def test_a_partition_that_moves_layers_says_what_moves() -> None:
    given_input = Input.model_validate(
        {
            "layers": [LAYER] * 4,
            "stages": 2,
            "device_memory_bytes": 1000,
            "host_link_bytes_per_ms": 2.0,
            "current": [0, 1],
        }
    )
    made = plan(given_input)
    assert isinstance(made.plan, PipelinePlan)
    assert (made.plan.first_layers, made.before_ms, made.after_ms) == ([0, 2], 9.0, 6.0)
    assert (made.plan.migration_bytes, made.plan.migration_ms) == (10.0, 5.0)


def test_a_search_that_is_cut_short_returns_a_plan_that_fits_and_a_bound_below_it() -> None:
    layers = [LayerCost(1 + each % 7 / 3, 2.0, 10 + each * each % 11, 1.0) for each in range(30)]
    limits = StageLimits(memory_bytes=400, link_bytes_per_ms=3.0, in_flight=3)
    cut = best_actions(layers, limits, Budget(nodes=0, per_stage=0))
    whole = best_actions(layers, limits, Budget(nodes=200_000, per_stage=200_000))
    assert bound_ms(layers, limits) <= whole.time_ms <= cut.time_ms < INFINITE
    assert not cut.exact


def test_fewer_micro_batches_than_stages_hold_less_memory() -> None:
    layer = {"forward_ms": 1, "backward_ms": 1, "activation_bytes": 10, "weight_bytes": 0, "optimizer_bytes": 0}
    limits = {"stages": 3, "device_memory_bytes": 20, "host_link_bytes_per_ms": 1}
    many = plan(Input.model_validate({"layers": [layer] * 3, **limits}))
    two = plan(Input.model_validate({"layers": [layer] * 3, **limits, "micro_batches": 2}))
    assert (many.after_ms, two.after_ms) == (3.0, 2.0)  # the first stage has to recompute 3 in flight, not 2


def test_one_byte_too_many_of_tens_of_terabytes_is_no_end_of_the_search() -> None:
    layers = [LayerCost(1.0, 1.0, 1e13 - 1, 0.0), LayerCost(50.0, 1.0, 1e13, 0.0), LayerCost(0.1, 1.0, 3.0, 0.0)]
    limits = StageLimits(memory_bytes=3e13 + 4, link_bytes_per_ms=1e9, in_flight=2)
    made = best_actions(layers, limits, Budget(nodes=100, per_stage=100))
    assert made.actions == ("recompute", "keep", "swap")  # the first one alone leaves one byte too many


def test_memory_exactly_at_the_limit_is_used_where_rounding_takes_a_byte() -> None:
    sizes = (3e9, 7136779939.552644)  # 3e9 + the second is the limit, but the limit - 3e9 is less than the second
    times = ((0.0, 9.5), (3.0, 2.0))
    layers = [
        {"forward_ms": forward, "backward_ms": backward, "activation_bytes": size}
        | {"weight_bytes": weight, "optimizer_bytes": 0.0}
        for (forward, backward), size, weight in zip(times, sizes, (0.0, 3e9), strict=True)
    ]
    limit = 3e9 + sizes[1]
    assert limit - 3e9 < sizes[1]
    made = plan(
        Input.model_validate(
            {"layers": layers, "stages": 1, "device_memory_bytes": limit, "host_link_bytes_per_ms": 1e9}
        )
    )
    assert isinstance(made.plan, PipelinePlan)
    assert made.plan.actions == ["recompute", "swap"]  # 14.27 ms of traffic next to 14.5 ms of compute
    assert made.after_ms == 14.5
    assert made.plan.stage_memory_bytes == [limit]
