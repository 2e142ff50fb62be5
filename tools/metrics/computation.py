"""Kernels and operators by class, group and the roofline, on the device and on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, length
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_events, of_rank
from tools.run.events import name_mask
from tools.views.device.kernels import kernel_table, spec_for
from tools.views.device.operator_cost import of_python_number, precision_of
from tools.views.device.roofline import group_rows, group_time, math_operators, roofline
from tools.views.host.elementwise_chains import chains, training_operators
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile


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


# A group is the outermost operators of a kind inside steps, so that their times add up:
#
# =================== =======================================================================
# fp64                operators whose first floating operand is 64 bits wide
# fallback            convolutions outside the tuned library
# elementwise_runs    chains of element-wise operators and of reductions between them (``elementwise_chains``)
# reads               values read out of a tensor (``item`` and the like)
# =================== =======================================================================


Rows = NDArray[np.int64]


@memoized
def host_group(profile: Profile, rank: int, group: str) -> Rows:
    """Rows of a group's outermost operators on the training threads inside steps, so that their times add up.

    fp64: the first floating operand is a tensor of 64 bits, not a Python number, which is recorded as one of 64 bits
    without dimensions and computed in the type of the others; fallback: convolutions outside the tuned library; reads:
    values read out of a tensor; elementwise_runs: chains of element-wise operators and of the reductions between them.
    """
    view = profile.rank(rank)
    choice("group", group, (*GROUPS, *NAMED_GROUPS))
    if group in GROUPS:
        return GROUPS[group](profile, view)
    rows = training_operators(view)
    return view.outermost(rows[view.named(NAMED_GROUPS[group])[rows]])


def _fp64(profile: Profile, view: RankProfile) -> Rows:
    recorded = view.events.details.operators
    wide = recorded[name_mask(recorded["types"], lambda types: precision_of(types) == "fp64")]
    alike = wide.groupby(["types", "dims"], observed=True, sort=False, dropna=False)["row"]
    rows = [group.to_numpy() for (types, dims), group in alike if not of_python_number(str(types), str(dims))]
    return view.outermost(np.intersect1d(np.concatenate([np.empty(0, np.int64), *rows]), training_operators(view)))


def _elementwise_runs(profile: Profile, view: RankProfile) -> Rows:
    return chains(profile, view.rank.rank)["row"].to_numpy(np.int64)


NAMED_GROUPS = {"fallback": "fallback_convolution", "reads": "scalar_read"}  # by name pattern
GROUPS: Mapping[str, Callable[[Profile, RankProfile], Rows]] = {"fp64": _fp64, "elementwise_runs": _elementwise_runs}


@metric("ms", "host time per step in {group}", "How long do host operators of a group take per step?")
def host_group_ms(profile: Profile, group: str, rank: int) -> Measurement:
    """Time per step in the operators of a group, on one rank."""
    view = profile.rank(rank)
    total_ns = length(view.covered(host_group(profile, rank, group)))
    return _of(profile, group, rank, total_ns / 1e6 / len(view.steps))


@metric("%", "share of the step in {group} on the host", "How much of the step do such operators take?")
def host_group_pct(profile: Profile, group: str, rank: int) -> Measurement:
    """The same as a share of the rank's steps."""
    return as_pct(host_group_ms(profile, group, rank), float(profile.rank(rank).wall_ms.mean()))


@metric("calls", "number per step of {group} on the host", "How many such operators does a step call?")
def host_group_count(profile: Profile, group: str, rank: int) -> Measurement:
    """Operators of a group per step."""
    return _of(profile, group, rank, len(host_group(profile, rank, group)) / len(profile.rank(rank).steps))


def _of(profile: Profile, group: str, rank: int, value: float) -> Measurement:
    selector = f"operators of the group {group} on training threads"
    return of_events(profile.rank(rank), value, host_group(profile, rank, group), selector)


@metric("%", "share of the step in chains of element-wise operators", "How much of the step do such chains take?")
def elementwise_chain_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the rank's steps in chains of element-wise operators, without what single calls were held up."""
    table = chains(profile, rank)
    return _of_chains(profile, rank, 100.0 * float(table["ns"].sum()) / 1e6 / float(profile.rank(rank).wall_ms.sum()))


@metric("%", "time of fused element-wise chains over that of the chains", "What would fused operators need of it?")
def fused_chain_pct(profile: Profile, rank: int) -> Measurement:
    """What fused operators would need of the time of the chains: arithmetic, and the traffic of one or two passes."""
    table = chains(profile, rank)
    return _of_chains(profile, rank, 100.0 * float(table["kept_ns"].sum()) / max(float(table["ns"].sum()), 1.0))


def _of_chains(profile: Profile, rank: int, value: float) -> Measurement:
    rows = chains(profile, rank)["row"].to_numpy(np.int64)
    return of_events(profile.rank(rank), value, rows, "chains of element-wise operators on training threads")
