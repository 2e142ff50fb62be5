"""Costs of all distinct operator calls of a rank against the roofline, and groups of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet
from tools.knowledge.devices import DeviceSpec
from tools.run.events import name_mask
from tools.run.links import enclosing
from tools.views.device.kernels import (
    MATH_CLASSES,
    MATRIX_UNIT,
    NAMED_PRECISIONS,
    UNKNOWN,
    VECTOR_UNIT,
    device_of,
    kernel_table,
    spec_for,
)
from tools.views.device.operator_cost import (
    MATH_OPERATORS,
    CostModel,
    element_bytes,
    precision_of,
    streaming_bytes,
    type_names,
)
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

UNTYPED_BYTES = 4  # traces that record shapes but no types are older than mixed precision by default


def call_costs(rank: RankProfile, keys: list[tuple[int, int, int, bool]]) -> pd.DataFrame:
    """One row per key (codes of name, dims, types; math): flops, bytes, typed, sizes, common_size (0 without any)."""
    recorded = rank.events.details.operators
    dims, types = ([*recorded[column].cat.categories.astype("str"), ""] for column in ("dims", "types"))
    calls = [(str(rank.categories[name]), dims[shape], types[kind], is_math) for name, shape, kind, is_math in keys]
    model = CostModel([(name, shape) for name, shape, _, _ in calls])
    rows = [
        _math_row(model, *call) if is_math else (math.nan, streaming_bytes(*call), "", ()) for *call, is_math in calls
    ]
    return pd.DataFrame(
        {
            "flops": np.array([row[0] for row in rows], dtype=float),
            "bytes": np.array([row[1] for row in rows], dtype=float),
            "typed": pd.Categorical([row[2] for row in rows], categories=list(NAMED_PRECISIONS)),
            "sizes": pd.Categorical([" x ".join(str(size) for size in row[3]) for row in rows]),
            "common_size": np.array([math.gcd(*row[3]) for row in rows], dtype=np.int64),
        }
    )


def _math_row(model: CostModel, name: str, dims: str, types: str) -> tuple[float, float, str, tuple[int, ...]]:
    cost = model.math_cost(name, dims)
    known = [size for kind in type_names(types) if (size := element_bytes(kind)) > 0]
    width = known[0] if known else math.nan if types else UNTYPED_BYTES
    return cost.flops, cost.elements * width, precision_of(types), cost.aligned_sizes


# With arithmetic intensity AI, achieved P and B, the device's peaks and one threshold U:
# memory-bound if AI <= P_peak / B_peak and B >= U * B_peak; compute-bound if AI > P_peak / B_peak and P >= U * P_peak;
# otherwise underutilised. P_peak is that of the type and unit the operator's kernels used.


BOUNDS = ("memory_bound", "compute_bound", "underutilized")
BOUND_NAMES = ("", *BOUNDS)
HALF_TYPES = ("fp16", "bf16", "fp8")
STREAMING_CLASSES = ("elementwise", "normalization")
# Above these shares of a peak the recorded shapes do not describe what was done: caches and broadcasts save traffic,
# Winograd and Fourier convolutions save up to three quarters of the operations; boost clocks add a little to each.
PLAUSIBLE = 1.1
PLAUSIBLE_CONVOLUTION = 4.0


@memoized
def roofline(profile: Profile, rank: int) -> pd.DataFrame:
    """One row per call of an operator with known shapes that launched kernels inside the rank's steps.

    Columns: operator (row), device_ns (sum of its kernels), math (bool, a matrix operator), flops, bytes (NaN
    unknown), precision, matrix (bool), sizes (text), common_size (largest divisor of all sizes that alignment
    concerns, 0 when there are none), peak_flops_per_s, least_ns (time at the peak that limits it), bound
    ("memory_bound", "compute_bound", "underutilized", "" when unknown). Without the device's figures
    ``bound`` is "" everywhere.
    """
    view = profile.rank(rank)
    calls = _calls(view, costed_kernels(profile, view.rank.rank))
    table = _with_costs(view, calls)
    table = table[(table["bytes"].notna() | table["flops"].notna()).to_numpy()].reset_index(drop=True)
    return _judged(table, spec_for(view), profile.thresholds["roofline_utilization_pct"] / 100)


@memoized
def costed_kernels(profile: Profile, rank: int) -> pd.DataFrame:
    """The kernel table's rows with the operator they are counted under: columns row, duration_ns, operator, math."""
    view = profile.rank(rank)
    kernels = kernel_table(profile, view.rank.rank)
    kernels = kernels[(kernels["operator"] >= 0) & (kernels["kernel_class"] != "communication").to_numpy()]
    around = enclosing(view.events, kernels["operator"].to_numpy(), math_operators(view)["row"].to_numpy())
    return kernels.assign(operator=np.where(around >= 0, around, kernels["operator"]), math=around >= 0)


def math_operators(rank: RankProfile) -> pd.DataFrame:
    """The recorded operators (``Details.operators``) that multiply matrices or convolve."""
    recorded, names = rank.events.details.operators, rank.events.frame["name"]
    operators: pd.DataFrame = recorded[name_mask(names, MATH_OPERATORS.__contains__)[recorded["row"].to_numpy()]]
    return operators


def _calls(rank: RankProfile, kernels: pd.DataFrame) -> pd.DataFrame:
    """One row per operator call with recorded shapes: its kernels' time, and type and unit of its longest kernel."""
    recorded = rank.events.details.operators
    ordered = kernels.sort_values(["operator", "duration_ns"], kind="stable")
    calls = ordered.drop_duplicates("operator", keep="last")
    calls = calls[["operator", "kernel_class", "precision", "unit", "math"]].reset_index(drop=True)
    calls = calls.assign(device_ns=kernels.groupby("operator")["duration_ns"].sum().to_numpy())
    place = rank.places(recorded, calls["operator"].to_numpy())
    judged = (place >= 0) & (calls["math"] | calls["kernel_class"].isin(STREAMING_CLASSES)).to_numpy()
    calls, place = calls[judged].reset_index(drop=True), place[judged]
    codes = {column: recorded[column].cat.codes.to_numpy()[place] for column in ("dims", "types")}
    return calls.assign(name=rank.codes[calls["operator"].to_numpy()], **codes)


def _with_costs(rank: RankProfile, calls: pd.DataFrame) -> pd.DataFrame:
    """The calls with flops, bytes, type by operands, and what their sizes have in common."""
    keys = ["name", "dims", "types", "math"]
    packed = np.zeros(len(calls), dtype=np.int64)
    for column in keys:
        values = calls[column].to_numpy().astype(np.int64) + 1
        packed = packed * (int(values.max(initial=0)) + 1) + values
    _, first, group = np.unique(packed, return_index=True, return_inverse=True)
    costs = call_costs(rank, list(calls[keys].iloc[first].itertuples(index=False, name=None)))
    return calls.assign(**{column: costs[column].array.take(group) for column in costs.columns})


def _judged(table: pd.DataFrame, spec: DeviceSpec | None, threshold: float) -> pd.DataFrame:
    named = table["precision"].cat.codes.to_numpy()
    precision = np.where(named == 0, table["typed"].cat.codes.to_numpy(), named)
    unit, half = table["unit"].to_numpy(), [NAMED_PRECISIONS.index(kind) for kind in HALF_TYPES]
    # Kernels that do not say: half types are taken to run on the matrix unit, wider types on the vector unit.
    matrix = np.asarray((unit == MATRIX_UNIT) | ((unit == UNKNOWN) & np.isin(precision, half)))
    table = table.assign(precision=_named(precision, NAMED_PRECISIONS), matrix=matrix)
    if spec is None:
        return table.assign(peak_flops_per_s=np.nan, least_ns=np.nan, bound=_named(np.zeros(len(table)), BOUND_NAMES))
    peak = _peaks(spec)[precision, matrix.astype(int)]
    device_ns, flops, moved = (table[name].to_numpy(dtype=float) for name in ("device_ns", "flops", "bytes"))
    seconds = np.maximum(device_ns, 1.0) / 1e9
    low_intensity = ~table["math"].to_numpy() | (flops / moved <= peak / spec.memory_bytes_per_s)
    reached = np.where(low_intensity, moved / spec.memory_bytes_per_s, flops / peak) / seconds
    saving = ~low_intensity & (table["kernel_class"] == "convolution").to_numpy()
    plausible = reached <= np.where(saving, PLAUSIBLE_CONVOLUTION, PLAUSIBLE)
    bound = np.where(plausible, np.where(reached >= threshold, np.where(low_intensity, 1, 2), 3), 0)
    least_ns = reached.clip(max=1.0) * device_ns
    return table.assign(peak_flops_per_s=peak, least_ns=least_ns, bound=_named(bound, BOUND_NAMES))


def _named(codes: NDArray[np.number], names: tuple[str, ...]) -> pd.Series[str]:
    return pd.Series(pd.Categorical.from_codes(codes.astype(np.int8), pd.Index(names)))


def _peaks(spec: DeviceSpec) -> NDArray[np.float64]:
    """Peak by type (rows, as in ``NAMED_PRECISIONS``) and unit (ordinary, matrix); NaN where there is none."""
    peaks = [
        [spec.peak_flops_per_s(kind, unit) if kind else None for unit in (False, True)] for kind in NAMED_PRECISIONS
    ]
    return np.array(peaks, dtype=float)


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
