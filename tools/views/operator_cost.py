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

FP8_TYPES = ("c10::Float8_e4m3fn", "c10::Float8_e5m2", "c10::Float8_e4m3fnuz", "c10::Float8_e5m2fnuz")
TYPE_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("bool", "unsigned char", "signed char", *FP8_TYPES), 1),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short"), 2),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("double", "long", "long int", "c10::complex<float>"), 8),
}
TYPE_PRECISION: Mapping[str, str] = {
    "float": "fp32",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "double": "fp64",
    **dict.fromkeys(FP8_TYPES, "fp8"),
}
MODEL_INPUT_CHANNELS = 4  # a convolution over so few channels reads the model's input, whose gradient nobody asks for


@dataclass(frozen=True)
class Cost:
    """What one call needs: operations, elements moved, and the sizes that matrix units like to be multiples of 8."""

    flops: float
    elements: float
    aligned_sizes: tuple[int, ...] = ()


UNKNOWN_COST = Cost(math.nan, math.nan)


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


def _mm(shapes: list[Shape]) -> Cost:
    return matmul_cost(shapes[0], shapes[1])


def _addmm(shapes: list[Shape]) -> Cost:
    return matmul_cost(shapes[1], shapes[2])


def _linear(shapes: list[Shape]) -> Cost:
    rows, weight = shapes[0], shapes[1]
    return matmul_cost([math.prod(rows[:-1]), rows[-1]], weight[::-1]) if len(weight) == 2 else UNKNOWN_COST


def _convolution_backward(shapes: list[Shape]) -> Cost:
    gradient, image, weight = shapes[:3]
    return convolution_cost(image, weight, gradient, _backward_passes(image))


def _old_convolution_backward(shapes: list[Shape]) -> Cost:
    return _convolution_backward([shapes[1], shapes[0], shapes[2]])


def _backward_passes(image: Shape) -> int:
    return 1 if len(image) > 1 and image[1] <= MODEL_INPUT_CHANNELS else 2


MATMULS: Mapping[str, Callable[[list[Shape]], Cost]] = {
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::_scaled_mm"), _mm),
    **dict.fromkeys(("aten::addmm", "aten::addmm_", "aten::_addmm_activation"), _addmm),
    **dict.fromkeys(("aten::baddbmm", "aten::baddbmm_"), _addmm),
    **dict.fromkeys(("aten::mkldnn_linear", "aten::mkl_linear"), _linear),
}
BACKWARD_CONVOLUTIONS: Mapping[str, Callable[[list[Shape]], Cost]] = {
    "aten::convolution_backward": _convolution_backward,
    "aten::cudnn_convolution_backward": _old_convolution_backward,
    "aten::miopen_convolution_backward": _old_convolution_backward,
}
FORWARD_CONVOLUTIONS = (
    "aten::cudnn_convolution",
    "aten::miopen_convolution",
    "aten::mkldnn_convolution",
    "aten::_convolution",
    "aten::convolution",
)
MATH_OPERATORS = frozenset((*MATMULS, *BACKWARD_CONVOLUTIONS, *FORWARD_CONVOLUTIONS))
COPYING = ("aten::copy_", "aten::fill_", "aten::zero_")


class CostModel:
    """Costs of a run's operators; forward convolutions take their output's shape from the matching backward one."""

    def __init__(self, recorded: list[tuple[str, str]]) -> None:
        self._outputs: dict[tuple[str, str], Shape | None] = {}
        for name, dims in recorded:
            if name in BACKWARD_CONVOLUTIONS:
                self._learn(name, tensor_shapes(dims))

    def _learn(self, name: str, shapes: list[Shape]) -> None:
        if len(shapes) < 3:
            return
        first, second, weight = shapes[:3]
        gradient, image = (first, second) if name == "aten::convolution_backward" else (second, first)
        key = (str(image), str(weight))
        known = self._outputs.setdefault(key, gradient)
        if known != gradient:
            self._outputs[key] = None

    def math_cost(self, name: str, dims: str) -> Cost:
        """Cost of one call of an operator of ``MATH_OPERATORS`` with the recorded shapes."""
        shapes = tensor_shapes(dims)
        try:
            if name in FORWARD_CONVOLUTIONS:
                output = self._outputs.get((str(shapes[0]), str(shapes[1])))
                return UNKNOWN_COST if output is None else convolution_cost(shapes[0], shapes[1], output, 1)
            return (MATMULS.get(name) or BACKWARD_CONVOLUTIONS[name])(shapes)
        except IndexError:
            return UNKNOWN_COST


def tensor_shapes(dims: str) -> list[Shape]:
    """The recorded "Input Dims" as a list of shapes; what is not one tensor is []."""
    return [entry if _is_shape(entry) else [] for entry in _parsed(dims)]


def _is_shape(entry: object) -> TypeGuard[Shape]:
    return isinstance(entry, list) and all(isinstance(size, int) and 0 <= size < 2**40 for size in entry)


def type_names(types: str) -> list[str]:
    """The recorded "Input type" as a list of names."""
    return [entry if isinstance(entry, str) else "" for entry in _parsed(types)]


def _parsed(text: str) -> list[object]:
    try:
        parsed = json.loads(text) if text else []
    except ValueError:
        return []
    return parsed if isinstance(parsed, list) else []


def precision_of(types: str) -> str:
    """Type of the widest-used floating operand: the first one that is a floating type, "" when none is recorded."""
    return next((TYPE_PRECISION[name] for name in type_names(types) if name in TYPE_PRECISION), "")


def streaming_bytes(name: str, dims: str, types: str) -> float:
    """Bytes of the tensors read once and of a result as large as the largest; NaN where shapes or types are missing."""
    parsed, names = _parsed(dims), type_names(types)
    sizes = []
    for entry, kind in zip(parsed, names, strict=False):
        if entry == [] or not isinstance(entry, list):
            continue
        if not _is_shape(entry) or kind not in TYPE_BYTES:
            return math.nan
        sizes.append(float(math.prod(entry)) * TYPE_BYTES[kind])
    if not sizes:
        return math.nan
    return sum(sizes) if name in COPYING else sum(sizes) + max(sizes)
