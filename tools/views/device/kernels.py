"""The kernels of a rank's steps with what their names say: class, arithmetic, launching operator, grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tools.knowledge.devices import PRECISIONS, DeviceSpec, spec_of
from tools.knowledge.name_patterns import KERNEL_CLASSES, kernel_class, patterns
from tools.run.model import Device
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

MATH_CLASSES = ("matmul", "convolution", "attention")
UNKNOWN, VECTOR_UNIT, MATRIX_UNIT = -1, 0, 1
FULL_LOAD_BYTES = 16  # matrix units read operands in loads of this size when the operands are aligned to it
NAMED_PRECISIONS = ("", *PRECISIONS)  # categories of every column that names a type
PRECISION_BYTES = {"tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic by a kernel's name: type ("" unknown), unit, loads of operands (-1 unknown, 0 narrow, 1 full)."""

    precision: str
    unit: int
    full_loads: int = UNKNOWN


def arithmetic_of(name: str) -> Arithmetic:
    """Type and unit by the naming of the vendors' libraries; unknown stays unknown."""
    known = ("fp8", "bf16", "tf32", "fp16", "fp64", "fp32")
    precision = next((each for each in known if patterns()[f"arithmetic_{each}"].search(name)), "")
    if patterns()["matrix_unit"].search(name):
        return Arithmetic(precision, MATRIX_UNIT, _full_loads(name, precision))
    return Arithmetic(precision, VECTOR_UNIT if patterns()["vector_unit"].search(name) else UNKNOWN)


def _full_loads(name: str, precision: str) -> int:
    match = patterns()["elements_per_load"].search(name)
    if match is None or precision not in PRECISION_BYTES:
        return UNKNOWN
    elements = int(match.group(1) or match.group(2))
    return int(elements * PRECISION_BYTES[precision] >= FULL_LOAD_BYTES)


@memoized
def kernel_table(profile: Profile, rank: int) -> pd.DataFrame:
    """All kernels that start inside the rank's steps, in order of start.

    Columns: row, track, start_ns, end_ns, duration_ns, name (code of the name category), kernel_class (category),
    precision (category, "" unknown), unit (-1 unknown, 0 ordinary, 1 matrix), full_loads (-1 unknown, 0 operands read
    in narrow loads because they are not aligned, 1 aligned), operator (row of the innermost operator that launched
    it, -1 unknown), blocks (-1 unknown). Precision, unit and loads are given only for classes that multiply matrices;
    for the others precision is fp64 or "".
    """
    view = profile.rank(rank)
    rows = view.in_steps(view.kernels)
    codes, start, end = view.codes[rows], view.start[rows], view.end[rows]
    operators = np.full(len(view.start), -1, dtype=np.int64)
    operators[view.launches["device_row"].to_numpy()] = view.launching_operators
    details = view.events.details.kernels
    blocks = np.append(details["blocks"].to_numpy(), -1)[view.places(details, rows)]
    table = pd.DataFrame({"row": rows, "track": view.track[rows], "start_ns": start, "end_ns": end})
    table = table.assign(duration_ns=end - start, name=codes, operator=operators[rows], blocks=blocks)
    used, place = np.unique(codes, return_inverse=True)
    meanings = [_meaning(name) for name in view.categories[used].astype(object)]
    classes = ("other", *(name.removesuffix("_kernel") for name in KERNEL_CLASSES))
    for column, index, known in (("kernel_class", 0, classes), ("precision", 1, NAMED_PRECISIONS)):
        table[column] = pd.Categorical([meaning[index] for meaning in meanings], categories=known).take(place)
    for column, index in (("unit", 2), ("full_loads", 3)):
        table[column] = np.array([meaning[index] for meaning in meanings], dtype=np.int8)[place]
    return table


def _meaning(name: str) -> tuple[str, str, int, int]:
    group = kernel_class(name)
    if group in MATH_CLASSES:
        arithmetic = arithmetic_of(name)
        return group, arithmetic.precision, arithmetic.unit, arithmetic.full_loads
    return group, "fp64" if patterns()["arithmetic_fp64"].search(name) else "", UNKNOWN, UNKNOWN


def device_of(rank: RankProfile) -> Device | None:
    """The device that ran the rank's kernels; None when the trace does not describe it."""
    if not len(rank.kernels):
        return None
    used = rank.events.tracks["device"].to_numpy()[rank.track[rank.kernels]]
    numbers, kernels = np.unique(used[used >= 0], return_counts=True)  # a damaged trace may number devices up to 2^63
    index = int(numbers[kernels.argmax()]) if len(numbers) else -1
    named = [device for device in rank.rank.devices if device.index == index]
    return next(iter(named or rank.rank.devices), None)


def spec_for(rank: RankProfile) -> DeviceSpec | None:
    """Datasheet figures of the device that ran the rank's kernels; None when it is not known."""
    device = device_of(rank)
    return None if device is None else spec_of(device)
