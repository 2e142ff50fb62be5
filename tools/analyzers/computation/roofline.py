"""Operators against the device's limits, and matrix operators that leave the matrix units unused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tools.analyzers.support.answers import cannot_answer, clean, confidence, say
from tools.analyzers.support.changes import Concerned, concerned, concerning, device_ranks, unknown_device, worst_share
from tools.analyzers.support.figures import measure_all
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding, Sentence
from tools.knowledge.devices import DeviceSpec
from tools.metrics.registry import measure
from tools.views.device.kernels import device_of, spec_for
from tools.views.device.roofline import costed_kernels, group_rows, roofline
from tools.views.profile import Profile

# From half types to fp8 is left out: that is another training recipe, and nothing is wrong with a step without it.
NARROWER = {"fp32": "tf32", "tf32": "bf16"}
WORTHWHILE = 1.5  # a matrix unit that is not this much faster than the ordinary one is no reason to change types
NO_SHAPES = "Shapes are not recorded, so the gain is a bound from the device's peaks."
TARGETS = ("tf32", "bf16", "fp16")


@check(
    *("computation.roofline", "Roofline", "How close are operators to the device's peak rates?"),
    causes=("compute_bound", "underutilization"),
    needs=(Need.KERNELS,),
)
def against_roofline(profile: Profile) -> Check | Finding:
    """Operators at the device's limit, far below it, or in between."""
    if unknown := unknown_device(profile):
        return unknown
    blind = [rank for rank in device_ranks(profile) if not len(group_rows(profile, rank, "costed"))]
    if blind:
        reason = f"rank {blind[0]} ran no operator whose shapes and types are recorded"
        return cannot_answer(reason, "a profile taken with record_shapes=True")
    limited = concerned(profile, "compute_bound")
    if limited is not None and limited.share.value >= profile.thresholds["compute_bound_pct"]:
        left = _narrower_factor(profile, limited.worst)
        text = "Operators that compute near the device's limit run {0} of the step; matrix operators reach {1}."
        finding = Finding(
            cause="compute_bound",
            claim=say(text, limited.share, measure(profile, "matrix_tflops", rank=limited.worst)),
            confidence=confidence((limited.share.value, profile.thresholds["compute_bound_pct"])),
            details=_bounds(profile),
            symptom_of=("underutilization",),  # at the limit of the ordinary units, with the matrix units unused
        )
        placed = concerning(profile, limited, "compute_bound", finding, left)
        if left < 1.0:
            return placed
        why = "the device has no faster unit for this work; only less work helps"
        zero = replace(placed, change=(), impact_ms=0.0, impact_method=why, saves_nothing=True)
        return replace(zero, steps=limited.share.steps)
    below = concerned(profile, "underutilized")
    if below is not None and _far_below(profile, below):
        reached, low = measure(profile, "roofline_pct", rank=below.worst), profile.thresholds["low_roofline_pct"]
        left = min(1.0, reached.value / low)
        text = (
            "Operators far below the roofline run {0} of the step, {n0} longest; at the peaks they would need {1} of"
            " their time."
        )
        finding = Finding(
            cause="underutilization",
            claim=say(text, below.share, reached, names=(_longest(profile, below.worst),)),
            confidence=confidence(
                (below.share.value, profile.thresholds["cause_share_pct"]), (low, max(reached.value, 1e-3)), at_most=0.7
            ),
            details=_bounds(profile),
        )
        return concerning(profile, below, "underutilized", finding, left, max(0.8, (1.0 + left) / 2))
    return clean(*_bounds(profile))


def _longest(profile: Profile, rank: int) -> str:
    """The operator with most device time among those far from both limits."""
    calls = roofline(profile, rank)
    calls = calls[calls["bound"] == "underutilized"]
    spent = np.bincount(calls["name"].to_numpy(), weights=calls["device_ns"].to_numpy())
    return str(profile.rank(rank).categories[int(spent.argmax())])


def _far_below(profile: Profile, where: Concerned) -> bool:
    reached = measure(profile, "roofline_pct", rank=where.worst)
    calls = roofline(profile, where.worst)
    calls = calls[calls["bound"] == "underutilized"]
    limits, small_ns = profile.thresholds, 1000 * profile.thresholds["small_grid_kernel_us"]
    large = where.share.value >= limits["cause_share_pct"] and not calls["device_ns"].mean() < small_ns
    return large and reached.value < limits["low_roofline_pct"]


def _bounds(profile: Profile) -> tuple[Sentence, ...]:
    rank = worst_share(profile, "computing").ranks[0]
    shares = (
        measure(profile, "kernel_group_share_pct", group=group, of=of, rank=rank)
        for group, of in (
            *(("underutilized", "costed"), ("memory_bound", "costed"), ("compute_bound", "costed")),
            ("costed", "computing"),
        )
    )
    text = "Of known operators {0} is underutilised, {1} memory-bound, {2} compute-bound; they are {3} of computing."
    table, rates = roofline(profile, rank), []
    if (table["math"] & table["flops"].notna()).any():
        rates.append(say("Matrix operators reach {0} while they run.", measure(profile, "matrix_tflops", rank=rank)))
    if (~table["math"] & table["bytes"].notna()).any():
        moved = measure_all(profile, "streaming_gb_s", "device_peak_gb_s", rank=rank)
        rates.append(say("Element-wise operators move {0} of the {1} that the device can.", *moved))
    return say(text, *shares), *rates


def _narrower_factor(profile: Profile, rank: int) -> float:
    """Time left in the next narrower type that the device's matrix units have; 1 when there is none."""
    spec = spec_for(profile.rank(rank))
    table = roofline(profile, rank)
    table = table[table["bound"] == "compute_bound"]
    if spec is None or table.empty:
        return 1.0
    used = str(table.groupby("precision")["device_ns"].sum().idxmax())
    matrix = bool(table["matrix"].to_numpy()[table["device_ns"].to_numpy().argmax()])
    present, better = spec.peak_flops_per_s(used, matrix), spec.peak_flops_per_s(NARROWER.get(used, ""), matrix=True)
    return min(1.0, present / better) if present and better else 1.0


@check(
    *("computation.precision", "Tensor cores", "Do matrix operators use the matrix units (tensor cores)?"),
    causes=("underutilization",),
    mechanisms=("no_tensor_core",),
    needs=(Need.KERNELS,),
)
def precision(profile: Profile) -> Check | Finding:
    """32-bit matrix multiplications and convolutions on the ordinary units of a device that has matrix units."""
    if unknown := unknown_device(profile):
        return unknown
    if not _runs(profile, "matrix_operators"):
        return clean(say("No matrix multiplication, convolution or attention kernel ran."))
    where = concerned(profile, "vector_unit_fp32")
    if where is None:
        for rank in _runs(profile, "matrix_operators"):
            if not measure(profile, "kernel_group_ms", rank=rank, group="matrix_operators").value:
                continue  # kernels without any length
            of = {"group": "unnamed_arithmetic", "of": "matrix_operators"}
            if measure(profile, "kernel_group_share_pct", rank=rank, **of).value > 50.0:
                return cannot_answer(
                    f"most matrix kernels of rank {rank} have names that do not show their arithmetic",
                    "a trace with record_shapes=True from a build whose libraries name their kernels",
                )
        shares = (worst_share(profile, group) for group in ("matrix_operators", "vector_unit_fp32"))
        return clean(
            say("Matrix operators run {0} of the step, those in single precision on ordinary units {1}.", *shares)
        )
    rank = where.worst
    device, spec, known = device_of(profile.rank(rank)), spec_for(profile.rank(rank)), roofline(profile, rank)
    target = None if spec is None else target_precision(spec)
    if spec is None or target is None:
        return clean(say("The device has no matrix units that would be faster than its ordinary ones."))
    ordinary = measure(profile, "device_peak_tflops", precision="fp32", matrix=0, rank=rank)
    matrix = measure(profile, "device_peak_tflops", precision=target, matrix=1, rank=rank)
    part = measure(profile, "kernel_group_share_pct", group="vector_unit_fp32", of="matrix_operators", rank=rank)
    text = "Matrix work in single precision runs {0} of the step on ordinary units of {n0}: peak {1}, matrix units {2}."
    finding = Finding(
        cause="underutilization",
        mechanism="no_tensor_core",
        claim=say(text, where.share, ordinary, matrix, names=("" if device is None else device.name,)),
        confidence=confidence((where.share.value, profile.thresholds["cause_share_pct"]), (part.value, 10.0)),
        details=(say("They take {0} of the time of all matrix kernels, {1} per step.", part, where.amounts[0]),),
        against=() if (known["math"] & known["flops"].notna()).any() else (say(NO_SHAPES),),
        hints={"precision": target},
    )
    return concerning(profile, where, "vector_unit_fp32", finding, _time_left(profile, rank, spec, target))


def target_precision(spec: DeviceSpec) -> str | None:
    """The type to compute in instead of fp32: the first of tf32, bf16, fp16 whose matrix peak is worth it."""
    ordinary = spec.vector_tflops.get("fp32", 0.0)
    return next((each for each in TARGETS if spec.matrix_tflops.get(each, 0.0) >= WORTHWHILE * ordinary), None)


def _time_left(profile: Profile, rank: int, spec: DeviceSpec, target: str) -> float:
    """Share of their time that the kernels would need on the matrix units, over the whole group.

    By operations and traffic where the shapes are known, else by the ratio of the peaks and their usual efficiencies.
    """
    matrix = spec.matrix_tflops[target] * profile.thresholds["matrix_efficiency_pct"] / 100
    ordinary = spec.vector_tflops["fp32"] * profile.thresholds["vector_efficiency_pct"] / 100
    least = spec.vector_tflops["fp32"] / spec.matrix_tflops[target]
    kernels = costed_kernels(profile, rank)
    kernels = kernels[np.isin(kernels["row"].to_numpy(), group_rows(profile, rank, "vector_unit_fp32"))]
    cost = roofline(profile, rank)[["operator", "flops", "bytes", "device_ns"]].set_index("operator")
    cost = cost.reindex(kernels["operator"].to_numpy())
    flops, moved = cost["flops"].to_numpy(dtype=float), cost["bytes"].to_numpy(dtype=float)
    streaming = moved / (spec.memory_bytes_per_s * profile.thresholds["memory_efficiency_pct"] / 100) * 1e9
    whole = cost["device_ns"].to_numpy(dtype=float)
    needed = np.maximum(flops / (matrix * 1e12) * 1e9, streaming) / np.maximum(whole, 1.0)
    share = np.clip(np.where(np.isnan(needed), ordinary / matrix, needed), least, 1.0)
    present = kernels["duration_ns"].to_numpy(dtype=float)
    return float((share * present).sum() / present.sum()) if present.sum() else max(least, ordinary / matrix)


def _runs(profile: Profile, group: str) -> tuple[int, ...]:
    return tuple(rank for rank in device_ranks(profile) if len(group_rows(profile, rank, group)))
