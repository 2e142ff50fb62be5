"""Do matrix operators use the units that are made for them, and does anything compute in double by accident?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.confidence import confidence
from tools.analyzers.support.kernel_scope import (
    Concerned,
    concerned,
    device_ranks,
    scaled_group,
    unknown_device,
    worst_share,
)
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.knowledge.devices import DeviceSpec
from tools.metrics.registry import measure
from tools.views.kernel_groups import group_rows
from tools.views.kernels import device_of, spec_for
from tools.views.profile import Profile
from tools.views.roofline import costed_kernels, roofline

PRECISION = "computation.precision"
DOUBLE = "computation.fp64"
WORTHWHILE = 1.5  # a matrix unit that is not this much faster than the ordinary one is no reason to change types
HALF_SIZE = 0.5  # 32-bit instead of 64-bit operands: half the traffic, at most half the time on every device
TARGETS = ("tf32", "bf16", "fp16")


def precision(profile: Profile) -> Check:
    """32-bit matrix multiplications and convolutions on the ordinary units of a device that has matrix units."""
    unknown = unknown_device(profile, PRECISION)
    if unknown is not None:
        return unknown
    if not _runs(profile, "matrix_operators"):
        return clean(PRECISION, Sentence("No matrix multiplication, convolution or attention kernel ran."))
    where = concerned(profile, "vector_unit_fp32")
    if where is None:
        return _nothing_found(profile)
    spec = spec_for(profile.rank(where.worst))
    target = None if spec is None else target_precision(spec)
    if spec is None or target is None:
        return clean(PRECISION, Sentence("The device has no matrix units that would be faster than its ordinary ones."))
    return found(PRECISION, _finding(profile, where, spec, target))


def target_precision(spec: DeviceSpec) -> str | None:
    """The type to compute in instead of fp32: the first of tf32, bf16, fp16 whose matrix peak is worth it."""
    ordinary = spec.vector_tflops.get("fp32", 0.0)
    return next((each for each in TARGETS if spec.matrix_tflops.get(each, 0.0) >= WORTHWHILE * ordinary), None)


def _nothing_found(profile: Profile) -> Check:
    for rank in _runs(profile, "matrix_operators"):
        unnamed = measure(
            profile, "kernel_group_share_pct", group="unnamed_arithmetic", of="matrix_operators", rank=rank
        )
        if unnamed.value > 50.0:
            return cannot_answer(
                PRECISION,
                f"most matrix kernels of rank {rank} have names that do not tell their arithmetic",
                "a trace with record_shapes=True from a build whose libraries name their kernels",
            )
    return clean(
        PRECISION,
        Sentence(
            "Matrix operators run {0} of the step, those in single precision on ordinary units {1}.",
            (worst_share(profile, "matrix_operators"), worst_share(profile, "vector_unit_fp32")),
        ),
    )


def _finding(profile: Profile, where: Concerned, spec: DeviceSpec, target: str) -> Finding:
    rank = where.worst
    factor = _kept_time(profile, rank, spec, target)
    ordinary = measure(profile, "device_peak_tflops", precision="fp32", matrix=0, rank=rank)
    matrix = measure(profile, "device_peak_tflops", precision=target, matrix=1, rank=rank)
    part = measure(profile, "kernel_group_share_pct", group="vector_unit_fp32", of="matrix_operators", rank=rank)
    device = device_of(profile.rank(rank))
    return Finding(
        cause="underutilization",
        mechanism="no_tensor_core",
        claim=Sentence(
            "Matrix multiplications and convolutions in single precision use the ordinary units for {0} of the step "
            "although {n0} has matrix units: its peak is {1} on the ordinary units and {2} on the matrix units.",
            (where.share, ordinary, matrix),
            ("" if device is None else device.name,),
        ),
        confidence=confidence((where.share.value, profile.thresholds["cause_share_pct"]), (part.value, 10.0)),
        ranks=where.ranks,
        steps=where.share.steps,
        change=scaled_group(profile, where, "vector_unit_fp32", factor, (1.0 + factor) / 2),
        details=(
            Sentence(
                "These kernels are {0} of the time of all matrix kernels and run {1} per step.",
                (part, measure(profile, "kernel_group_ms", group="vector_unit_fp32", rank=rank)),
            ),
        ),
        against=(
            Sentence("Single precision may be meant; a lower one needs a check of the loss curve."),
            *_unknown_shapes(profile, rank),
        ),
        disproved_by="a step in a lower matrix precision or mixed precision that takes as long as before",
        signals=("fp32 or fp64 matmul on tensor-core hardware", "both utilisations below threshold"),
        hints={"precision": target},
    )


def _unknown_shapes(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    known = roofline(profile, rank)
    if not (known["math"] & known["flops"].notna()).any():
        return (Sentence("Shapes are not recorded, so the gain is a bound from the device's peaks."),)
    return ()


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


def double(profile: Profile) -> Check:
    """Kernels that compute in 64 bit."""
    where = concerned(profile, "fp64")
    if where is None:
        return clean(
            DOUBLE, Sentence("Kernels in double precision run {0} of the step.", (worst_share(profile, "fp64"),))
        )
    return found(
        DOUBLE,
        Finding(
            cause="underutilization",
            claim=Sentence("Kernels in double precision run {0} of the step.", (where.share,)),
            confidence=confidence((where.share.value, profile.thresholds["computation_finding_pct"]), at_most=0.8),
            ranks=where.ranks,
            steps=where.share.steps,
            change=scaled_group(profile, where, "fp64", HALF_SIZE, (1.0 + HALF_SIZE) / 2),
            details=(
                Sentence(
                    "That is {0}, in {1} per step.",
                    (
                        measure(profile, "kernel_group_ms", group="fp64", rank=where.worst),
                        measure(profile, "kernel_group_count", group="fp64", rank=where.worst),
                    ),
                ),
            ),
            against=(Sentence("Accumulators are sometimes kept in double precision on purpose."),),
            disproved_by="the operators that launch these kernels have no double operand",
            signals=("fp32 or fp64 matmul on tensor-core hardware",),
            hints={"precision": "fp32"},
        ),
    )


def _runs(profile: Profile, group: str) -> tuple[int, ...]:
    return tuple(rank for rank in device_ranks(profile) if len(group_rows(profile, rank, group)))
