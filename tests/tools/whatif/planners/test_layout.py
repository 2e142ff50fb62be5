"""Layouts: those that fit, in order, and the published table of shards."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tools.whatif.planners.layout import Input, LayoutPlan, plan
from tools.whatif.planners.record import NoPlanError, Planned

MODEL = {"layers": 12, "hidden_width": 1024, "heads": 16, "sequence_length": 1024, "vocabulary": 32000}
CLUSTER = {
    "devices": 16,
    "devices_per_node": 8,
    "device_memory_bytes": 24e9,
    "operations_per_ms": 1e11,
    "inside_node": {"alpha_ms": 0.01, "beta_ms_per_byte": 1e-8},
    "between_nodes": {"alpha_ms": 0.03, "beta_ms_per_byte": 1e-7},
}


def planned(model: dict[str, object], cluster: dict[str, object], **more: object) -> tuple[Planned, LayoutPlan]:
    given_input = {"model": {**MODEL, **model}, "cluster": {**CLUSTER, **cluster}, "global_batch": 64, **more}
    made = plan(Input.model_validate(given_input))
    assert isinstance(made.plan, LayoutPlan)
    return made, made.plan


@seed(8)
@settings(max_examples=25, deadline=None)
@given(
    devices=st.sampled_from([1, 2, 6, 8, 16, 24]),
    memory=st.floats(1e9, 60e9),
    experts=st.sampled_from([1, 4, 8]),
    width=st.sampled_from([512, 2048]),
)
def test_no_layout_is_over_memory_and_the_fastest_comes_first(
    devices: int, memory: float, experts: int, width: int
) -> None:
    with suppress(NoPlanError):  # too little memory, or no even share
        made, found = planned(
            {"experts": experts, "hidden_width": width}, {"devices": devices, "device_memory_bytes": memory}
        )
        check(made, found, devices, memory)


def check(made: Planned, found: LayoutPlan, devices: int, memory: float) -> None:
    """Sizes multiply to what there is, memory holds, the fastest comes first."""
    assert all(each.memory_bytes <= memory for each in found.layouts)
    assert [each.step_ms for each in found.layouts] == sorted(each.step_ms for each in found.layouts)
    assert made.after_ms == found.layouts[0].step_ms
    for each in found.layouts:
        assert each.data_parallel * each.tensor_parallel * each.pipeline_parallel == devices
        assert each.data_parallel * each.micro_batch * each.micro_batches == 64
        stages = each.pipeline_parallel
        assert each.bubble == pytest.approx((stages - 1) / (each.micro_batches + stages - 1))


def test_one_device_is_the_compute_of_the_model() -> None:
    _, found = planned({}, {"devices": 1, "device_memory_bytes": 1e12})
    per_token = 12 * (24 * 1024**2 + 4 * 1024 * 1024) + 2 * 1024 * 32000
    assert found.layouts[0].step_ms == pytest.approx(3 * 64 * 1024 * per_token / 1e11)
    assert found.layouts[0].communication_ms == 0


def test_the_state_of_the_parameters_is_shared_by_tensor_and_pipeline_ranks() -> None:
    current = {"data_parallel": 1, "tensor_parallel": 1, "pipeline_parallel": 1}
    _, found = planned({}, {"devices": 1, "device_memory_bytes": 1e12}, current=current)
    assert found.current is not None
    parameters = 12 * 12 * 1024**2 + 1024 * 32000
    activations = 12 * 1024 * 1024 * 34 + 4 * 1024 * (1024 + 32000)
    assert found.current.memory_bytes == pytest.approx(16 * parameters + activations)


def test_too_little_memory_names_the_missing_bytes() -> None:
    with pytest.raises(NoPlanError, match=r"device_memory_bytes = 1000000: the smallest needs \d+"):
        planned({}, {"device_memory_bytes": 1e6})


def test_a_present_layout_that_cannot_be_is_refused() -> None:
    current = {"data_parallel": 3, "tensor_parallel": 1, "pipeline_parallel": 1}
    with pytest.raises(ValidationError, match="it needs 3 devices, there are 16"):
        planned({}, {}, current=current)


def test_the_measured_step_scales_the_prediction() -> None:
    current = {"data_parallel": 16, "tensor_parallel": 1, "pipeline_parallel": 1}
    plain, _ = planned({}, {}, current=current)
    scaled, _ = planned({}, {}, current=current, measured_step_ms=1000.0)
    assert plain.before_ms is not None
    assert scaled.before_ms == pytest.approx(1000.0)
    assert scaled.after_ms / 1000.0 == pytest.approx(plain.after_ms / plain.before_ms)
