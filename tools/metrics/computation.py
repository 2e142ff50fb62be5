"""Matrix operators that ran on the host, by the type of their operands."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, length
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_events, of_rank
from tools.run.events import name_mask
from tools.views.kernel_groups import group_rows, group_time
from tools.views.kernels import kernel_table, spec_for
from tools.views.operator_cost import precision_of
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.views.roofline import math_operators, roofline


@memoized
def host_math_rows(profile: Profile, rank: int, precision: str) -> NDArray[np.int64]:
    """Rows of matrix operators inside the steps whose first floating operand has that type ("" for any type)."""
    view = profile.rank(rank)
    recorded = math_operators(view)
    known = (lambda types: precision_of(types) == precision) if precision else precision_of
    return view.in_steps(recorded["row"].to_numpy()[name_mask(recorded["types"], known)])


@metric("ms", "{kernel_class} kernel time per step", "How long do kernels of a class run per step?")
def kernel_class_ms(profile: Profile, kernel_class: str, rank: int) -> Measurement:
    """Device time per step in which a kernel of the class runs."""
    view, table = profile.rank(rank), kernel_table(profile, rank)
    choice("class of kernels", kernel_class, list(table["kernel_class"].cat.categories))
    rows = table.loc[table["kernel_class"] == kernel_class, "row"].to_numpy()
    return of_events(view, _step_ms(view, view.covered(rows)), rows, f"kernels of class {kernel_class}")


@metric("ms", "time per step in {group}", "How long do kernels of a group run per step?")
def kernel_group_ms(profile: Profile, group: str, rank: int) -> Measurement:
    """Device time per step in which a kernel of the group runs."""
    return _group(profile, group, rank, _step_ms(profile.rank(rank), group_time(profile, rank, group)))


@metric("%", "share of the step in {group}", "Which share of the step do kernels of a group run?")
def kernel_group_pct(profile: Profile, group: str, rank: int) -> Measurement:
    """The same as a share of the step."""
    return as_pct(kernel_group_ms(profile, group, rank), float(profile.rank(rank).wall_ms.mean()))


@metric("%", "share of {group} in the time of {of}", "How much of one group's time is another's?")
def kernel_group_share_pct(profile: Profile, group: str, of: str, rank: int) -> Measurement:
    """Time of a group's kernels as a share of the time of another group's."""
    whole = length(group_time(profile, rank, of))
    if not whole:
        raise UsageError(f"no kernel of the group {of} ran on rank {rank}")
    return _group(profile, group, rank, 100.0 * length(group_time(profile, rank, group)) / whole)


@metric("kernels", "number per step of {group}", "How many kernels of a group run per step?")
def kernel_group_count(profile: Profile, group: str, rank: int) -> Measurement:
    """Kernels of the group per step."""
    return _group(profile, group, rank, len(group_rows(profile, rank, group)) / len(profile.rank(rank).steps))


@metric("TFLOP/s", "arithmetic rate of matrix operators", "How fast do matrix operators compute?")
def matrix_tflops(profile: Profile, rank: int) -> Measurement:
    """Rate at which matrix operators of known shape computed while their kernels ran."""
    table = roofline(profile, rank)
    missing = "no matrix operator with recorded shapes ran"
    return _rate(profile, rank, table[table["math"]], "flops", 1e-3, missing, "matrix operators with recorded shapes")


@metric("GB/s", "memory throughput of element-wise operators", "How fast do element-wise operators move data?")
def streaming_gb_s(profile: Profile, rank: int) -> Measurement:
    """Rate at which element-wise and normalizing operators of known shape moved memory, every operand counted once."""
    table = roofline(profile, rank)
    missing = "no element-wise operator with recorded shapes and types ran"
    selector = "element-wise operators with recorded shapes"
    return _rate(profile, rank, table[~table["math"]], "bytes", 1.0, missing, selector)


@metric("%", "roofline efficiency of operators with known cost", "How close do operators come to the roofline?")
def roofline_pct(profile: Profile, rank: int) -> Measurement:
    """Time that operators of known cost would need at the device's peaks, as a share of the time they take."""
    table = roofline(profile, rank)
    missing = "no operator of known cost ran, or the device is not in the device table,"
    selector = "operators with recorded shapes against the peaks"
    return _rate(profile, rank, table[table["bound"] != ""], "least_ns", 100.0, missing, selector)


def _rate(
    profile: Profile, rank: int, calls: pd.DataFrame, column: str, scale: float, missing: str, selector: str
) -> Measurement:
    """The sum of a column of the roofline table over the device time of the calls in which it is known."""
    known = calls[calls[column].notna()]
    if known.empty:
        raise UsageError(f"{missing} on rank {rank}")
    value = scale * float(known[column].sum()) / float(known["device_ns"].sum())
    return of_events(profile.rank(rank), value, known["operator"].to_numpy(), selector)


@metric("TFLOP/s", "{precision} peak of the {matrix}", "How fast could the device compute?")
def device_peak_tflops(profile: Profile, precision: str, matrix: int, rank: int) -> Measurement:
    """Datasheet peak of the rank's device for a type, on matrix units (1) or ordinary ones (0)."""
    view = profile.rank(rank)
    spec = spec_for(view)
    peak = None if spec is None else spec.peak_flops_per_s(precision, bool(matrix))
    if spec is None or peak is None:
        raise UsageError(f"the device table has no {precision} peak for the device of rank {rank}")
    return of_rank(view, peak / 1e12, lambda: kernel_table(profile, rank).iloc[:0], spec.source)


@metric("GB/s", "peak memory bandwidth of the device", "How fast could the device move memory?")
def device_peak_gb_s(profile: Profile, rank: int) -> Measurement:
    """Datasheet memory bandwidth of the rank's device."""
    view = profile.rank(rank)
    spec = spec_for(view)
    if spec is None:
        raise UsageError(f"the device table does not know the device of rank {rank}")
    return of_rank(view, spec.memory_gb_s, lambda: kernel_table(profile, rank).iloc[:0], spec.source)


@metric("%", "share of the step in {precision} host matrix operators", "How much matrix work is on the host?")
def host_math_pct(profile: Profile, precision: str, rank: int) -> Measurement:
    """Share of the steps in which a matrix operator with operands of that type runs on the host."""
    view, rows = profile.rank(rank), host_math_rows(profile, rank, precision)
    share = 100.0 * length(view.covered(rows)) / 1e6 / float(view.wall_ms.sum())
    return of_events(view, share, rows, f"matrix operators on {precision} operands")


def _group(profile: Profile, group: str, rank: int, value: float) -> Measurement:
    return of_events(profile.rank(rank), value, group_rows(profile, rank, group), f"kernels of the group {group}")


def _step_ms(view: RankProfile, busy: IntervalSet) -> float:
    return length(busy) / 1e6 / max(len(view.steps), 1)
