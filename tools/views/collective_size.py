"""How many bytes a collective moves, from what the trace recorded about it.

The size follows the convention of the NCCL tests: the whole buffer that a rank ends or starts with, whichever is
larger (all-gather: the gathered output; reduce-scatter and all-to-all: the input).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

UNKNOWN = -1
LARGEST_ELEMENTS = 1 << 48  # no buffer is larger; more is a damaged shape

FP8_TYPES = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
BYTES_OF: Mapping[str, int] = {
    **dict.fromkeys(("byte", "char", "bool", "unsigned char", "signed char", "int8", "uint8", *FP8_TYPES), 1),
    **dict.fromkeys(("half", "float16", "bfloat16", "short", "short int", "int16"), 2),
    **dict.fromkeys(("float", "float32", "int", "int32"), 4),
    **dict.fromkeys(("double", "float64", "long", "long int", "int64", "complexfloat"), 8),
    "complexdouble": 16,
}


def element_bytes(dtype: str) -> int:
    """Bytes of one element of a recorded type name, ``UNKNOWN`` when the name is not known."""
    return BYTES_OF.get(dtype.strip().lower().removeprefix("c10::").removeprefix("torch."), UNKNOWN)


def elements_of(dims: str) -> int:
    """Elements of the first input of a recorded shape list (``[[5, 3], []]`` or a list of tensors ``[[[5], [3]]]``)."""
    first = _first(dims)
    if not isinstance(first, list) or not first:
        return UNKNOWN
    shapes = first if isinstance(first[0], list) else [first]
    total = 0
    for shape in shapes:
        if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape):
            return UNKNOWN
        total += math.prod(shape)
        if total > LARGEST_ELEMENTS:
            return UNKNOWN
    return total


def element_bytes_of(types: str) -> int:
    """Bytes of one element of the first input, ``UNKNOWN`` when its type was not recorded."""
    first = _first(types)
    return element_bytes(first) if isinstance(first, str) else UNKNOWN


def bus_factor(kind: str, group_size: int) -> float:
    """What turns algorithm bandwidth into bus bandwidth (NCCL tests, PERFORMANCE.md), so that peers compare."""
    if group_size < 2:
        return 1.0
    match kind:
        case "all_reduce":
            return 2.0 * (group_size - 1) / group_size
        case "all_gather" | "reduce_scatter" | "all_to_all" | "gather" | "scatter":
            return (group_size - 1) / group_size
        case _:
            return 1.0


def _first(text: str) -> object:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values[0] if isinstance(values, list) and values else None
