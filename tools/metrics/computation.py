"""Matrix operators that ran on the host, by the type of their operands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, length
from tools.metrics.measurement import Measurement, metric, of_events, of_rank
from tools.metrics.rank_speed import device_speed
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
    types = [precision_of(str(kind)) for kind in recorded["types"].cat.categories]
    fits = np.array([bool(kind) if not precision else kind == precision for kind in types], dtype=bool)
    chosen = np.append(fits, False)[recorded["types"].cat.codes.to_numpy()]
    return view.in_steps(np.asarray(recorded["row"].to_numpy()[chosen], dtype=np.int64))


@metric("ms", "{kernel_class} kernel time per step", "How long do kernels of a class run per step?")
def kernel_class_ms(profile: Profile, kernel_class: str, rank: int) -> Measurement:
    """Device time per step in which a kernel of the class runs."""
    view = profile.rank(rank)
    table = kernel_table(profile, rank)
    rows = table["row"].to_numpy()[(table["kernel_class"] == kernel_class).to_numpy()]
    busy = view.covered(rows)
    return of_events(view, _step_ms(view, busy), rows, f"kernels of class {kernel_class}")


@metric("ms", "time per step in {group}", "How long do kernels of a group run per step?")
def kernel_group_ms(profile: Profile, group: str, rank: int) -> Measurement:
    """Device time per step in which a kernel of the group runs."""
    return _group(profile, group, rank, _step_ms(profile.rank(rank), group_time(profile, rank, group)))


@metric("%", "share of the step in {group}", "Which share of the step do kernels of a group run?")
def kernel_group_pct(profile: Profile, group: str, rank: int) -> Measurement:
    """The same as a share of the step."""
    view = profile.rank(rank)
    wall_ns = float((view.steps["end_ns"] - view.steps["start_ns"]).sum())
    return _group(profile, group, rank, 100.0 * length(group_time(profile, rank, group)) / wall_ns)


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
    view = profile.rank(rank)
    return _group(profile, group, rank, len(group_rows(profile, rank, group)) / len(view.steps))


@metric("TFLOP/s", "arithmetic rate of matrix operators", "How fast do matrix operators compute?")
def matrix_tflops(profile: Profile, rank: int) -> Measurement:
    """Rate at which matrix operators of known shape computed while their kernels ran."""
    view = profile.rank(rank)
    table = roofline(profile, rank)
    known = table[table["math"] & table["flops"].notna()]
    if known.empty:
        raise UsageError(f"no matrix operator with recorded shapes ran on rank {rank}")
    rate = float(known["flops"].sum()) / float(known["device_ns"].sum()) / 1e3
    rows = known["operator"].to_numpy()
    return of_events(view, rate, rows, "matrix operators with recorded shapes")


@metric("GB/s", "memory throughput of element-wise operators", "How fast do element-wise operators move data?")
def streaming_gb_s(profile: Profile, rank: int) -> Measurement:
    """Rate at which element-wise and normalizing operators of known shape moved memory, every operand counted once."""
    view = profile.rank(rank)
    table = roofline(profile, rank)
    known = table[~table["math"] & table["bytes"].notna()]
    if known.empty:
        raise UsageError(f"no element-wise operator with recorded shapes and types ran on rank {rank}")
    rate = float(known["bytes"].sum()) / float(known["device_ns"].sum())
    rows = known["operator"].to_numpy()
    return of_events(view, rate, rows, "element-wise operators with recorded shapes")


@metric("%", "roofline efficiency of operators with known cost", "How close do operators come to the roofline?")
def roofline_pct(profile: Profile, rank: int) -> Measurement:
    """Time that operators of known cost would need at the device's peaks, as a share of the time they take."""
    view = profile.rank(rank)
    table = roofline(profile, rank)
    known = table[table["bound"] != ""]
    if known.empty:
        raise UsageError(f"no operator of known cost ran on rank {rank}, or its device is not in the device table")
    rows = known["operator"].to_numpy()
    share = 100.0 * float(known["least_ns"].sum()) / float(known["device_ns"].sum())
    return of_events(view, share, rows, "operators with recorded shapes against the peaks")


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
    view = profile.rank(rank)
    rows = host_math_rows(profile, rank, precision)
    wall_ns = float((view.steps["end_ns"] - view.steps["start_ns"]).sum())
    share = 100.0 * length(view.covered(rows)) / wall_ns
    return of_events(view, share, rows, f"matrix operators on {precision} operands")


@metric("%", "extra time of the same kernels", "How much slower is this rank's device?")
def device_slowdown_pct(profile: Profile, rank: int) -> Measurement:
    """How much longer the rank's kernels take than the same kernels on the median rank."""
    view = profile.rank(rank)
    table = device_speed(profile)
    mine = table[table["rank"] == rank]
    if mine.empty:
        raise UsageError(f"rank {rank} shares no kernels with other ranks")
    slowdown = 100.0 * (float(mine["ratio"].iloc[0]) - 1.0)
    return of_rank(view, slowdown, lambda: table, "kernels of equal name and grid, medians per rank")


def _group(profile: Profile, group: str, rank: int, value: float) -> Measurement:
    view = profile.rank(rank)
    rows = group_rows(profile, rank, group)
    return of_events(view, value, rows, f"kernels of the group {group}")


def _step_ms(view: RankProfile, busy: IntervalSet) -> float:
    return length(busy) / 1e6 / max(len(view.steps), 1)
