"""Operations and traffic read from recorded shapes and types."""

from __future__ import annotations

import math

import pytest

from tools.views.device.operator_cost import CostModel, precision_of, streaming_bytes


@pytest.mark.parametrize(
    ("name", "dims", "flops", "elements", "sizes"),
    [
        ("aten::mm", "[[10, 20], [20, 30]]", 12_000, 200 + 600 + 300, (10, 20, 30)),
        ("aten::addmm", "[[30], [10, 20], [20, 30], [], []]", 12_000, 1100, (10, 20, 30)),
        ("aten::bmm", "[[4, 10, 20], [4, 20, 30]]", 48_000, 4400, (10, 20, 30)),
        ("aten::convolution_backward", "[[2, 16, 5, 5], [2, 8, 5, 5], [16, 8, 3, 3]]", 2 * 115_200, 2 * 2352, (8, 16)),
        ("aten::cudnn_convolution_backward", "[[2, 8, 5, 5], [2, 16, 5, 5], [16, 8, 3, 3]]", 230_400, 4704, (8, 16)),
    ],
)
def test_costs_follow_from_shapes(name: str, dims: str, flops: float, elements: float, sizes: tuple[int, ...]) -> None:
    cost = CostModel([]).math_cost(name, dims)
    assert (cost.flops, cost.elements, cost.aligned_sizes) == (flops, elements, sizes)


def test_a_convolution_on_the_models_input_needs_no_gradient_for_it() -> None:
    cost = CostModel([]).math_cost("aten::convolution_backward", "[[2, 16, 5, 5], [2, 3, 5, 5], [16, 3, 3, 3]]")
    assert cost.flops == 2 * (2 * 16 * 25) * 27


def test_a_forward_convolution_takes_its_output_from_the_backward_one() -> None:
    backward = ("aten::convolution_backward", "[[2, 16, 3, 3], [2, 8, 5, 5], [16, 8, 3, 3]]")
    forward = "[[2, 8, 5, 5], [16, 8, 3, 3], [], []]"
    assert CostModel([backward]).math_cost("aten::cudnn_convolution", forward).flops == 2 * (2 * 16 * 9) * 72
    assert math.isnan(CostModel([]).math_cost("aten::cudnn_convolution", forward).flops)


def test_two_possible_outputs_leave_a_forward_convolution_unknown() -> None:
    one = ("aten::convolution_backward", "[[2, 16, 3, 3], [2, 8, 5, 5], [16, 8, 3, 3]]")
    other = ("aten::convolution_backward", "[[2, 16, 5, 5], [2, 8, 5, 5], [16, 8, 3, 3]]")
    cost = CostModel([one, other]).math_cost("aten::convolution", "[[2, 8, 5, 5], [16, 8, 3, 3]]")
    assert math.isnan(cost.flops)


@pytest.mark.parametrize("dims", ["", "[]", "not json", "[[10, 20]]", "[[10, 20], [21, 30]]", '[["a"], [3, 4]]', "{}"])
def test_shapes_that_do_not_fit_give_no_cost(dims: str) -> None:
    assert math.isnan(CostModel([]).math_cost("aten::mm", dims).flops)


def test_a_grouped_convolution_has_no_sizes_to_align() -> None:
    cost = CostModel([]).math_cost("aten::convolution_backward", "[[1, 8, 4, 4], [1, 8, 4, 4], [8, 1, 3, 3]]")
    assert (cost.flops, cost.aligned_sizes) == (2 * 2 * (8 * 16) * 9, ())


@pytest.mark.parametrize(
    ("name", "dims", "types", "moved"),
    [
        ("aten::add", "[[100], [100], []]", '["float", "float", "Scalar"]', 1200),
        ("aten::relu", "[[100]]", '["c10::Half"]', 400),
        ("aten::copy_", "[[100], [100], []]", '["c10::Half", "float", "Scalar"]', 600),
        ("aten::fill_", "[[100], []]", '["float", "Scalar"]', 400),
    ],
)
def test_streaming_operators_move_every_operand_once(name: str, dims: str, types: str, moved: float) -> None:
    assert streaming_bytes(name, dims, types) == moved


def test_unknown_types_and_lists_of_tensors_have_no_traffic() -> None:
    assert math.isnan(streaming_bytes("aten::add", "[[100], [100]]", '["strange", "float"]'))
    assert math.isnan(streaming_bytes("aten::cat", "[[[10], [20]], []]", '["TensorList", "Scalar"]'))
    assert math.isnan(streaming_bytes("aten::add", "[[100], [100]]", ""))


def test_precision_is_that_of_the_first_floating_operand() -> None:
    assert precision_of('["long", "c10::BFloat16", "float"]') == "bf16"
    assert precision_of('["long", "Scalar"]') == ""
