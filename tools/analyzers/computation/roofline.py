"""Are operators at the device's limit, or far below it?"""

from __future__ import annotations

from dataclasses import replace

from tools.analyzers.support.answers import cannot_answer, clean, confidence, measure_all, say
from tools.analyzers.support.kernel_scope import (
    Concerned,
    concerned,
    concerning,
    device_ranks,
    unknown_device,
    worst_share,
)
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding, Sentence
from tools.metrics.registry import measure
from tools.views.kernel_groups import group_rows
from tools.views.kernels import spec_for
from tools.views.profile import Profile
from tools.views.roofline import roofline

# From half types to fp8 is left out: that is another training recipe, and nothing is wrong with a step without it.
NARROWER = {"fp32": "tf32", "tf32": "bf16"}


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
        return _compute_bound(profile, limited)
    below = concerned(profile, "underutilized")
    if below is not None and _far_below(profile, below):
        return _underutilized(profile, below)
    return clean(*_bounds(profile))


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
    reached, low = measure(profile, "roofline_pct", rank=where.worst), profile.thresholds["low_roofline_pct"]
    left = min(1.0, reached.value / low)
    finding = Finding(
        cause="underutilization",
        claim=say(
            "Operators that use neither the device's arithmetic nor its memory bandwidth run {0} of the step; at the"
            " device's peaks operators of known cost would need {1} of their time.",
            *(where.share, reached),
        ),
        confidence=confidence(
            (where.share.value, profile.thresholds["cause_share_pct"]), (low, max(reached.value, 1e-3)), at_most=0.7
        ),
        details=_bounds(profile),
        against=(say("Small operators cannot fill a large device; a larger batch is not always possible."),),
        disproved_by="a larger batch that lengthens these kernels in proportion",
        signals=("both utilisations below threshold",),
    )
    return concerning(profile, where, "underutilized", finding, left, max(0.8, (1.0 + left) / 2))


def _bounds(profile: Profile) -> tuple[Sentence, ...]:
    """Which limits operators are bound by, and the rates they reach."""
    rank = worst_share(profile, "computing").ranks[0]
    shares = (
        measure(profile, "kernel_group_share_pct", group=group, of=of, rank=rank)
        for group, of in (
            *(("underutilized", "costed"), ("memory_bound", "costed"), ("compute_bound", "costed")),
            ("costed", "computing"),
        )
    )
    text = (
        "Of the time of operators with known cost {0} is underutilised, {1} memory-bound and {2} compute-bound; they"
        " are {3} of the computing time."
    )
    table, rates = roofline(profile, rank), []
    if (table["math"] & table["flops"].notna()).any():
        rates.append(say("Matrix operators reach {0} while they run.", measure(profile, "matrix_tflops", rank=rank)))
    if (~table["math"] & table["bytes"].notna()).any():
        moved = measure_all(profile, "streaming_gb_s", "device_peak_gb_s", rank=rank)
        rates.append(say("Element-wise operators move {0} of the {1} that the device can.", *moved))
    return say(text, *shares), *rates


def _compute_bound(profile: Profile, where: Concerned) -> Finding:
    left = _narrower_factor(profile, where.worst)
    finding = Finding(
        cause="compute_bound",
        claim=say(
            "Operators that compute near the device's limit run {0} of the step; matrix operators reach {1}.",
            *(where.share, measure(profile, "matrix_tflops", rank=where.worst)),
        ),
        confidence=confidence((where.share.value, profile.thresholds["compute_bound_pct"])),
        details=_bounds(profile),
        against=(say("This is how a well-tuned step looks; there is nothing wrong unless less work would do."),),
        disproved_by="a device clock below its usual value",
        symptom_of=("underutilization",),  # at the limit of the ordinary units, with the matrix units unused
        signals=("arithmetic intensity above the ridge and utilisation above threshold",),
    )
    placed = concerning(profile, where, "compute_bound", finding, left)
    if left < 1.0:
        return placed
    why = "the device has no faster unit for this work; only less work helps"
    return replace(placed, change=(), impact_ms=0.0, impact_method=why)


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
