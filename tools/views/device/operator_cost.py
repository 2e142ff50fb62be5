"""Arithmetic and memory traffic that an operator needs at least, from its recorded shapes and types.

One multiply-add counts as two operations. Traffic counts every operand and result once, which is the least a device
without reuse between operators must move. An operator whose cost is not known from what is recorded has NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

Shape: TypeAlias = list[int]

FP8_TYPES = ("Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz")
TYPE_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("byte", "char", "bool", "unsigned char", "signed char", "int8", "uint8"), 1),
    **dict.fromkeys([kind.lower() for kind in FP8_TYPES], 1),
    **dict.fromkeys(("half", "float16", "bfloat16", "short", "short int", "int16"), 2),
    **dict.fromkeys(("float", "float32", "int", "int32"), 4),
    **dict.fromkeys(("double", "float64", "long", "long int", "int64", "complexfloat", "complex<float>"), 8),
    "complexdouble": 16,
}
TYPE_PRECISION: Mapping[str, str] = {
    "float": "fp32",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "double": "fp64",
    **{f"c10::{kind}": "fp8" for kind in FP8_TYPES},
}
MODEL_INPUT_CHANNELS = 4  # a convolution over so few channels reads the model's input, whose gradient nobody asks for


@dataclass(frozen=True)
class Cost:
    """The cost of one call: operations, elements moved, and the sizes that matrix units like to be multiples of 8."""

    flops: float
    elements: float
    aligned_sizes: tuple[int, ...] = ()


UNKNOWN_COST = Cost(math.nan, math.nan)


def element_bytes(dtype: str) -> int:
    """Bytes of one element of a recorded type name, -1 when the name is not known."""
    return TYPE_BYTES.get(dtype.strip().lower().removeprefix("c10::").removeprefix("torch."), -1)


def matmul_cost(a: Shape, b: Shape) -> Cost:
    """[m, k] x [k, n], or the same with a leading batch."""
    if len(a) != len(b) or len(a) not in (2, 3) or a[-1] != b[-2]:
        return UNKNOWN_COST
    batch = a[0] if len(a) == 3 else 1
    m, k, n = a[-2], a[-1], b[-1]
    return Cost(2.0 * batch * m * k * n, float(batch * (m * k + k * n + m * n)), (m, k, n))


def convolution_cost(image: Shape, weight: Shape, output: Shape, passes: int) -> Cost:
    """A convolution of any dimension from its three shapes; one pass computes output, image or weight gradient."""
    fits = len(image) == len(weight) == len(output) and len(image) >= 3 and output[1] == weight[0]
    if not fits or not weight[1] or image[1] % weight[1]:
        return UNKNOWN_COST
    flops = 2.0 * math.prod(output) * math.prod(weight[1:])
    elements = float(math.prod(image) + math.prod(weight) + math.prod(output))
    grouped = weight[1] != image[1]
    return Cost(passes * flops, passes * elements, () if grouped else (image[1], weight[0]))


def _linear(shapes: list[Shape]) -> Cost:
    rows, weight = shapes[0], shapes[1]
    return matmul_cost([math.prod(rows[:-1]), rows[-1]], weight[::-1]) if len(weight) == 2 else UNKNOWN_COST


def _convolution_backward(shapes: list[Shape], gradient: int = 0, image: int = 1) -> Cost:
    """From the places of the gradient and the image among the recorded shapes; the weight is the third."""
    own = shapes[image]
    passes = 1 if len(own) > 1 and own[1] <= MODEL_INPUT_CHANNELS else 2
    return convolution_cost(own, shapes[2], shapes[gradient], passes)


MATMULS: Mapping[str, Callable[[list[Shape]], Cost]] = {
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::_scaled_mm"), lambda shapes: matmul_cost(shapes[0], shapes[1])),
    **dict.fromkeys(
        ("aten::addmm", "aten::addmm_", "aten::_addmm_activation", "aten::baddbmm", "aten::baddbmm_"),
        lambda shapes: matmul_cost(shapes[1], shapes[2]),
    ),
    **dict.fromkeys(("aten::mkldnn_linear", "aten::mkl_linear"), _linear),
}
BACKWARD_CONVOLUTIONS: Mapping[str, Callable[[list[Shape]], Cost]] = {
    "aten::convolution_backward": _convolution_backward,
    **dict.fromkeys(
        ("aten::cudnn_convolution_backward", "aten::miopen_convolution_backward"),
        lambda shapes: _convolution_backward(shapes, gradient=1, image=0),
    ),
}
FORWARD_CONVOLUTIONS = tuple(f"aten::{name}convolution" for name in ("cudnn_", "miopen_", "mkldnn_", "_", ""))
MATH_OPERATORS = frozenset((*MATMULS, *BACKWARD_CONVOLUTIONS, *FORWARD_CONVOLUTIONS))
COPYING = ("aten::copy_", "aten::fill_", "aten::zero_")


class CostModel:
    """Costs of a run's operators; forward convolutions take their output's shape from the matching backward one."""

    def __init__(self, recorded: list[tuple[str, str]]) -> None:
        self._outputs: dict[str, Shape | None] = {}
        for name, dims in recorded:
            shapes = tensor_shapes(dims)
            if name in BACKWARD_CONVOLUTIONS and len(shapes) >= 3:
                newest = name == "aten::convolution_backward"
                gradient, image = (shapes[0], shapes[1]) if newest else (shapes[1], shapes[0])
                key = str([image, shapes[2]])
                self._outputs[key] = gradient if self._outputs.setdefault(key, gradient) == gradient else None

    def math_cost(self, name: str, dims: str) -> Cost:
        """Cost of one call of an operator of ``MATH_OPERATORS`` with the recorded shapes."""
        shapes = tensor_shapes(dims)
        try:
            if name in FORWARD_CONVOLUTIONS:
                output = self._outputs.get(str([shapes[0], shapes[1]]))
                return UNKNOWN_COST if output is None else convolution_cost(shapes[0], shapes[1], output, 1)
            return (MATMULS.get(name) or BACKWARD_CONVOLUTIONS[name])(shapes)
        except IndexError:
            return UNKNOWN_COST


def tensor_shapes(dims: str) -> list[Shape]:
    """The recorded "Input Dims" as a list of shapes; what is not one tensor is []."""
    return [entry if _is_shape(entry) else [] for entry in parsed_list(dims)]


def _is_shape(entry: object) -> TypeGuard[Shape]:
    return isinstance(entry, list) and all(isinstance(size, int) and 0 <= size < 2**40 for size in entry)


def type_names(types: str) -> list[str]:
    """The recorded "Input type" as a list of names."""
    return [entry if isinstance(entry, str) else "" for entry in parsed_list(types)]


def parsed_list(text: str) -> list[object]:
    """The list that a text of JSON holds, empty where it holds none."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return parsed if isinstance(parsed, list) else []


def precision_of(types: str) -> str:
    """Type of the widest-used floating operand: the first one that is a floating type, "" when none is recorded."""
    return next((TYPE_PRECISION[name] for name in type_names(types) if name in TYPE_PRECISION), "")


def of_python_number(types: str, dims: str) -> bool:
    """Whether the first floating operand of 64 bits has no dimensions, as a Python number among tensors is recorded:
    PyTorch computes such a call in the type of the other operands (its type promotion)."""
    shapes = parsed_list(dims)
    return next(
        (shape == [] for name, shape in zip(type_names(types), shapes, strict=False) if name in TYPE_PRECISION), False
    )


def streaming_bytes(name: str, dims: str, types: str) -> float:
    """Bytes of the tensors read once and of a result as large as the largest; NaN where shapes or types are missing."""
    sizes = _tensor_bytes(dims, types)
    return sum(sizes) + (0.0 if name in COPYING else max(sizes)) if sizes else math.nan


def largest_bytes(dims: str, types: str) -> float:
    """Bytes of the largest tensor, as large as the result of an element-wise operator; 0 where none is known."""
    return max(_tensor_bytes(dims, types), default=0.0)


def _tensor_bytes(dims: str, types: str) -> list[float]:
    """Bytes of each tensor, none where the shape or type of one is not known."""
    sizes = []
    for entry, kind in zip(parsed_list(dims), type_names(types), strict=False):
        if entry == [] or not isinstance(entry, list):
            continue
        if not _is_shape(entry) or element_bytes(kind) < 0:
            return []
        sizes.append(float(math.prod(entry)) * element_bytes(kind))
    return sizes
