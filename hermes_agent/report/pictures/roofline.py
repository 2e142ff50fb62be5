"""Operators against the peaks of their device: operations per byte, and operations per second that were reached."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.evidence.citations import written
from hermes_agent.evidence.printable import printable
from tools.errors import UsageError
from tools.knowledge.devices import DeviceSpec
from tools.views.device.kernels import spec_for
from tools.views.device.roofline import roofline
from tools.views.profile import Profile

MOST_POINTS = 40
NAME_CHARS = 60
NOT_KNOWN = "A roofline needs operators with recorded shapes (record_shapes=True) on a device whose peaks are known."


@dataclass(frozen=True)
class Operator:
    """Calls of one operator with the same sizes, type and unit, added up; rates over their device time."""

    name: str
    sizes: str
    precision: str  # "" unknown
    matrix: bool  # on matrix units
    calls: int
    ms_per_step: float
    flops_per_byte: float
    flops_per_s: float
    peak_flops_per_s: float


@dataclass(frozen=True)
class Roofline:
    """One rank's operators, those with most device time first, and the limits of its device."""

    rank: int
    device: str
    memory_bytes_per_s: float
    operators: tuple[Operator, ...]
    left_out: int  # groups with less device time

    @property
    def peaks(self) -> dict[str, float]:
        """Operations per second by type and unit, of the operators shown."""
        named = {operator_type(each): each.peak_flops_per_s for each in self.operators}
        return dict(sorted(named.items(), key=lambda item: -item[1]))


def measured(profile: Profile) -> Roofline:
    """The roofline of the first rank that has one; UsageError where none has."""
    for view in profile.ranks:
        spec = spec_for(view)
        if spec is not None and (found := _of_rank(profile, view.rank.rank, spec)) is not None:
            return found
    raise UsageError(NOT_KNOWN)


def _of_rank(profile: Profile, rank: int, spec: DeviceSpec) -> Roofline | None:
    view = profile.rank(rank)
    table = roofline(profile, rank)
    known = (table["flops"] > 0) & (table["bytes"] > 0) & (table["peak_flops_per_s"] > 0) & (table["bound"] != "")
    table = table[known.to_numpy()]
    if table.empty:
        return None
    table = table.assign(name=view.names(table["operator"].to_numpy()))
    keys = ["name", "sizes", "precision", "matrix", "peak_flops_per_s"]
    sums = table.groupby(keys, observed=True).agg(
        calls=("device_ns", "size"), device_ns=("device_ns", "sum"), flops=("flops", "sum"), bytes=("bytes", "sum")
    )
    ordered = sums.sort_values("device_ns", ascending=False, kind="stable").reset_index()
    steps = max(len(view.steps), 1)
    operators = tuple(
        Operator(
            name=printable(str(row["name"]), NAME_CHARS),
            sizes=str(row["sizes"]),
            precision=str(row["precision"]),
            matrix=bool(row["matrix"]),
            calls=int(row["calls"]),
            ms_per_step=float(row["device_ns"]) / 1e6 / steps,
            flops_per_byte=float(row["flops"]) / float(row["bytes"]),
            flops_per_s=float(row["flops"]) / (max(float(row["device_ns"]), 1.0) / 1e9),
            peak_flops_per_s=float(row["peak_flops_per_s"]),
        )
        for row in ordered.head(MOST_POINTS).to_dict("records")
    )
    return Roofline(rank, spec.name, spec.memory_bytes_per_s, operators, max(len(ordered) - MOST_POINTS, 0))


def operator_type(each: Operator) -> str:
    """Type and unit of an operator."""
    return f"{each.precision or 'fp32'} {'matrix' if each.matrix else 'vector'} units"


def operator_text(each: Operator) -> str:
    """An operator with its sizes, and what it reached."""
    sizes = f" {each.sizes}" if each.sizes else ""
    share = 100.0 * each.flops_per_s / each.peak_flops_per_s
    reached = f"{written(each.flops_per_s, 'FLOP/s')}, {written(share, '%')} of the peak"
    return f"{each.name}{sizes}: {reached}, {written(each.ms_per_step, 'ms')} per step"
