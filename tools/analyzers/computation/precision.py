"""Do matrix operators use the units that are made for them?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.answers import cannot_answer, clean, confidence, say
from tools.analyzers.support.kernel_scope import (
    Concerned,
    concerned,
    concerning,
    device_ranks,
    unknown_device,
    worst_share,
)
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding
from tools.knowledge.devices import DeviceSpec
from tools.metrics.registry import measure
from tools.views.kernel_groups import group_rows
from tools.views.kernels import device_of, spec_for
from tools.views.profile import Profile
from tools.views.roofline import costed_kernels, roofline

WORTHWHILE = 1.5  # a matrix unit that is not this much faster than the ordinary one is no reason to change types
NO_SHAPES = "Shapes are not recorded, so the gain is a bound from the device's peaks."
TARGETS = ("tf32", "bf16", "fp16")


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
        return _nothing_found(profile)
    spec = spec_for(profile.rank(where.worst))
    target = None if spec is None else target_precision(spec)
    if spec is None or target is None:
        return clean(say("The device has no matrix units that would be faster than its ordinary ones."))
    return _finding(profile, where, spec, target)


def target_precision(spec: DeviceSpec) -> str | None:
    """The type to compute in instead of fp32: the first of tf32, bf16, fp16 whose matrix peak is worth it."""
    ordinary = spec.vector_tflops.get("fp32", 0.0)
    return next((each for each in TARGETS if spec.matrix_tflops.get(each, 0.0) >= WORTHWHILE * ordinary), None)


def _nothing_found(profile: Profile) -> Check:
    for rank in _runs(profile, "matrix_operators"):
        of = {"group": "unnamed_arithmetic", "of": "matrix_operators"}
        if measure(profile, "kernel_group_share_pct", rank=rank, **of).value > 50.0:
            return cannot_answer(
                f"most matrix kernels of rank {rank} have names that do not show their arithmetic",
                "a trace with record_shapes=True from a build whose libraries name their kernels",
            )
    shares = (worst_share(profile, group) for group in ("matrix_operators", "vector_unit_fp32"))
    return clean(say("Matrix operators run {0} of the step, those in single precision on ordinary units {1}.", *shares))


def _finding(profile: Profile, where: Concerned, spec: DeviceSpec, target: str) -> Finding:
    rank, device = where.worst, device_of(profile.rank(where.worst))
    known = roofline(profile, rank)
    no_shapes = () if (known["math"] & known["flops"].notna()).any() else (say(NO_SHAPES),)
    ordinary = measure(profile, "device_peak_tflops", precision="fp32", matrix=0, rank=rank)
    matrix = measure(profile, "device_peak_tflops", precision=target, matrix=1, rank=rank)
    part = measure(profile, "kernel_group_share_pct", group="vector_unit_fp32", of="matrix_operators", rank=rank)
    spent = measure(profile, "kernel_group_ms", group="vector_unit_fp32", rank=rank)
    finding = Finding(
        cause="underutilization",
        mechanism="no_tensor_core",
        claim=say(
            "Matrix multiplications and convolutions in single precision use the ordinary units for {0} of the step"
            " although {n0} has matrix units: its peak is {1} on the ordinary units and {2} on the matrix units.",
            *(where.share, ordinary, matrix),
            names=("" if device is None else device.name,),
        ),
        confidence=confidence((where.share.value, profile.thresholds["cause_share_pct"]), (part.value, 10.0)),
        details=(say("These kernels take {0} of the time of all matrix kernels, {1} per step.", part, spent),),
        against=(
            say("Single precision may be meant; a lower one needs a check of the loss curve."),
            *no_shapes,
        ),
        disproved_by="a step in a lower matrix precision or mixed precision that takes as long as before",
        signals=("fp32 or fp64 matmul on tensor-core hardware", "both utilisations below threshold"),
        hints={"precision": target},
    )
    return concerning(profile, where, "vector_unit_fp32", finding, _kept_time(profile, rank, spec, target))


def _kept_time(profile: Profile, rank: int, spec: DeviceSpec, target: str) -> float:
    """Share of their time that the kernels would need on the matrix units, over the whole group.

    Where the shapes are known: the operations at the efficiency that ordinary shapes reach on matrix units, or the
    traffic at the reachable bandwidth, whichever takes longer. Elsewhere the ratio of the peaks corrected by the
    efficiencies assumed for both units. Never below the ratio of the peaks, never above the present time.
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
