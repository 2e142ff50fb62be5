"""Runs of element-wise kernels that fusion could make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet
from tools.views.kernels import MATH_CLASSES, NAMED_PRECISIONS, UNKNOWN, VECTOR_UNIT, device_of, kernel_table
from tools.views.profile import Profile, memoized
from tools.views.roofline import BOUNDS, costed_kernels, roofline

FUSED_LEAST = 1 / 3  # a fused run of element-wise kernels still reads every operand and writes a result


@memoized
def streaming_runs(profile: Profile, rank: int) -> pd.DataFrame:
    """Two or more element-wise kernels in a row on one stream: columns row, duration_ns, run, run_ns, fused_ns."""
    view = profile.rank(rank)
    table = kernel_table(profile, rank).sort_values(["track", "start_ns"], kind="stable")
    streaming = (table["kernel_class"] == "elementwise").to_numpy()
    keys = np.column_stack((table["track"], streaming, table["blocks"], view.step_of(table["row"].to_numpy())))
    changed = np.append(True, (keys[1:] != keys[:-1]).any(axis=1))[: len(table)]
    table = table.assign(run=np.cumsum(changed))[streaming][["row", "duration_ns", "run"]]
    runs = table.groupby("run")["duration_ns"]
    run_ns, kernels = runs.transform("sum"), runs.transform("size")
    whole = np.maximum(runs.transform("max"), run_ns * FUSED_LEAST)
    table = table.assign(run_ns=run_ns, fused_ns=whole * table["duration_ns"] / run_ns.clip(lower=1))
    least_ns = 1000 * profile.thresholds["streaming_kernel_us"]
    return table[(kernels > 1) & (run_ns / kernels >= least_ns)].reset_index(drop=True)


ALIGNED = {"tf32": 4, "fp16": 8, "bf16": 8, "fp8": 16}  # elements in 16 bytes, what matrix units read at once


@memoized
def group_rows(profile: Profile, rank: int, group: str) -> NDArray[np.int64]:
    """Rows of the group's kernels inside the rank's steps; a clear error when there is no such group."""
    if group in NAMED_GROUPS:
        table = kernel_table(profile, rank)
        return _rows(table, NAMED_GROUPS[group](table))
    if group in GROUPS:
        return GROUPS[group](profile, rank)
    if group not in KERNEL_GROUPS:
        raise UsageError(f"there is no group of kernels {group!r}; choose one of {', '.join(KERNEL_GROUPS)}")
    calls = roofline(profile, rank)
    return _kernels_of(profile, rank, calls[calls["bound"] != "" if group == "costed" else calls["bound"] == group])


@memoized
def group_time(profile: Profile, rank: int, group: str) -> IntervalSet:
    """The moments in which at least one kernel of the group runs."""
    return profile.rank(rank).covered(group_rows(profile, rank, group))


def _vector_math(profile: Profile, rank: int) -> NDArray[np.int64]:
    """32-bit matrix multiplications and convolutions on the vector units that matrix units could take."""
    table = kernel_table(profile, rank)
    chosen = table["kernel_class"].isin(MATH_CLASSES) & (table["unit"] == VECTOR_UNIT) & (table["precision"] == "fp32")
    return _rows(table, chosen & ~profile.rank(rank).named("matrix_free_kernel")[table["row"].to_numpy()])


def _small_grid(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Kernels with fewer blocks than multiprocessors that last long enough for it to matter."""
    device, table = device_of(profile.rank(rank)), kernel_table(profile, rank)
    blocks = (device.multiprocessors or 0) if device else 0
    small = (table["blocks"] > 0) & (table["blocks"] < blocks) & (table["kernel_class"] != "communication")
    return _rows(table, small & (table["duration_ns"] >= 1000 * profile.thresholds["small_grid_kernel_us"]))


def _misaligned(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Matrix kernels that read operands in narrow loads: by their names, else by sizes no multiple of 16 bytes."""
    table, calls = kernel_table(profile, rank), roofline(profile, rank)
    silent = _rows(table, (table["full_loads"] == UNKNOWN) & table["kernel_class"].isin(MATH_CLASSES))
    by_size = np.intersect1d(_kernels_of(profile, rank, calls[misaligned_calls(calls)]), silent)
    return np.union1d(_rows(table, table["full_loads"] == 0), by_size)


def misaligned_calls(calls: pd.DataFrame) -> NDArray[np.bool_]:
    """For each row of the roofline table, whether its sizes are no multiple of what matrix units read at once."""
    sizes = calls["common_size"].to_numpy()
    return np.asarray((sizes > 0) & (sizes % np.maximum(_elements_per_load(calls), 1) > 0))


def _loads_known(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Matrix kernels whose loads are known from their names or from recorded sizes."""
    table, calls = kernel_table(profile, rank), roofline(profile, rank)
    sized = (calls["common_size"].to_numpy() > 0) & (_elements_per_load(calls) > 0)
    return np.union1d(_rows(table, table["full_loads"] >= 0), _kernels_of(profile, rank, calls[sized]))


def _elements_per_load(calls: pd.DataFrame) -> NDArray[np.int64]:
    """Elements that matrix units read at once, by type; 0 where the type needs no alignment."""
    by_code = np.array([ALIGNED.get(kind, 0) for kind in NAMED_PRECISIONS])
    return np.asarray(by_code[calls["precision"].cat.codes.to_numpy()], dtype=np.int64)


def _kernels_of(profile: Profile, rank: int, calls: pd.DataFrame) -> NDArray[np.int64]:
    """Kernels of some calls of the roofline table."""
    table = costed_kernels(profile, rank)
    return _rows(table, table["operator"].isin(calls["operator"]))


def _rows(table: pd.DataFrame, chosen: pd.Series[bool]) -> NDArray[np.int64]:
    return np.asarray(table["row"].to_numpy()[chosen.to_numpy()], dtype=np.int64)


NAMED_GROUPS: Mapping[str, Callable[[pd.DataFrame], pd.Series[bool]]] = {
    "computing": lambda table: table["kernel_class"] != "communication",
    "matrix_operators": lambda table: table["kernel_class"].isin(MATH_CLASSES),
    "unnamed_arithmetic": lambda table: table["kernel_class"].isin(MATH_CLASSES) & (table["precision"] == ""),
    "fp64": lambda table: (table["precision"] == "fp64") & (table["kernel_class"] != "communication"),
    "layout": lambda table: table["kernel_class"] == "layout",
}
GROUPS: Mapping[str, Callable[[Profile, int], NDArray[np.int64]]] = {
    "vector_unit_fp32": _vector_math,
    "small_grid": _small_grid,
    "loads_known": _loads_known,
    "misaligned": _misaligned,
    "streaming_runs": lambda profile, rank: np.sort(streaming_runs(profile, rank)["row"].to_numpy()),
}
KERNEL_GROUPS = (*NAMED_GROUPS, *GROUPS, "costed", *BOUNDS)
