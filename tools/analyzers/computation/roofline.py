"""Are operators at the device's limit, or far below it?"""

from __future__ import annotations

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
from tools.metrics.registry import measure
from tools.views.kernel_groups import group_rows
from tools.views.kernels import spec_for
from tools.views.profile import Profile
from tools.views.roofline import roofline

ROOFLINE = "computation.roofline"
# From half types to fp8 is left out: that is another training recipe, and nothing is wrong with a step without it.
NARROWER = {"fp32": "tf32", "tf32": "bf16"}


def against_roofline(profile: Profile) -> Check:
    """Where operators stand against the roofline: at the device's limit, far below it, or in between."""
    unknown = unknown_device(profile, ROOFLINE)
    if unknown is not None:
        return unknown
    blind = [rank for rank in device_ranks(profile) if not len(group_rows(profile, rank, "costed"))]
    if blind:
        return cannot_answer(
            ROOFLINE,
            f"rank {blind[0]} ran no operator whose shapes and types are recorded",
            "a profile taken with record_shapes=True",
        )
    limited = concerned(profile, "compute_bound")
    if limited is not None and limited.share.value >= profile.thresholds["compute_bound_pct"]:
        return found(ROOFLINE, _compute_bound(profile, limited))
    below = concerned(profile, "underutilized")
    if below is not None and _far_below(profile, below):
        return found(ROOFLINE, _underutilized(profile, below))
    return clean(ROOFLINE, *_standing(profile))


def _far_below(profile: Profile, where: Concerned) -> bool:
    reached = measure(profile, "roofline_pct", rank=where.worst)
    calls = roofline(profile, where.worst)
    calls = calls[calls["bound"] == "underutilized"]
    if calls["device_ns"].mean() < 1000 * profile.thresholds["small_grid_kernel_us"]:
        return False
    return (
        where.share.value >= profile.thresholds["cause_share_pct"]
        and reached.value < profile.thresholds["low_roofline_pct"]
    )


def _underutilized(profile: Profile, where: Concerned) -> Finding:
    reached = measure(profile, "roofline_pct", rank=where.worst)
    low = profile.thresholds["low_roofline_pct"]
    factor = min(1.0, reached.value / low)
    return Finding(
        cause="underutilization",
        claim=Sentence(
            "Operators that use neither the device's arithmetic nor its memory bandwidth run {0} of the step; at the "
            "device's peaks operators of known cost would need {1} of their time.",
            (where.share, reached),
        ),
        confidence=confidence(
            (where.share.value, profile.thresholds["cause_share_pct"]), (low, max(reached.value, 1e-3)), at_most=0.7
        ),
        ranks=where.ranks,
        steps=where.share.steps,
        change=scaled_group(profile, where, "underutilized", factor, max(0.8, (1.0 + factor) / 2)),
        details=_standing(profile),
        against=(Sentence("Small operators cannot fill a large device; a larger batch is not always possible."),),
        disproved_by="a larger batch that lengthens these kernels in proportion",
        signals=("both utilisations below threshold",),
    )


def _standing(profile: Profile) -> tuple[Sentence, ...]:
    rank = _busiest(profile)
    shares = tuple(
        measure(profile, "kernel_group_share_pct", group=bound, of="costed", rank=rank)
        for bound in ("underutilized", "memory_bound", "compute_bound")
    )
    covered = measure(profile, "kernel_group_share_pct", group="costed", of="computing", rank=rank)
    return (
        Sentence(
            "Of the time of operators with known cost {0} is underutilised, {1} memory-bound and {2} compute-bound; "
            "they are {3} of the computing time.",
            (*shares, covered),
        ),
        *_rates(profile, rank),
    )


def _rates(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    table = roofline(profile, rank)
    rates = []
    if (table["math"] & table["flops"].notna()).any():
        rates.append(
            Sentence("Matrix operators compute at {0} while they run.", (measure(profile, "matrix_tflops", rank=rank),))
        )
    if (~table["math"] & table["bytes"].notna()).any():
        rates.append(
            Sentence(
                "Element-wise operators move {0} of the {1} that the device can.",
                (measure(profile, "streaming_gb_s", rank=rank), measure(profile, "device_peak_gb_s", rank=rank)),
            )
        )
    return tuple(rates)


def _busiest(profile: Profile) -> int:
    return worst_share(profile, "computing").ranks[0]


def _compute_bound(profile: Profile, where: Concerned) -> Finding:
    rate = measure(profile, "matrix_tflops", rank=where.worst)
    factor = _narrower_factor(profile, where.worst)
    movable = factor < 1.0
    return Finding(
        cause="compute_bound",
        claim=Sentence(
            "Operators that compute near the device's limit run {0} of the step; matrix operators reach {1}.",
            (where.share, rate),
        ),
        confidence=confidence((where.share.value, profile.thresholds["compute_bound_pct"])),
        ranks=where.ranks,
        steps=where.share.steps,
        change=scaled_group(profile, where, "compute_bound", factor, (1.0 + factor) / 2) if movable else (),
        impact_ms=None if movable else 0.0,
        impact_method="" if movable else "the device has no faster unit for this work; only less work helps",
        details=_standing(profile),
        against=(Sentence("This is how a well-tuned step looks; there is nothing wrong unless less work would do."),),
        disproved_by="a device clock below its usual value",
        symptom_of=("underutilization",),  # at the limit of the ordinary units, with matrix units beside them unused
        signals=("arithmetic intensity above the ridge and utilisation above threshold",),
    )


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
