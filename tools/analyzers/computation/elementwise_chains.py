"""Do chains of element-wise kernels move memory that fusion would save?"""

from __future__ import annotations

from tools.analyzers.support.confidence import confidence
from tools.analyzers.support.kernel_scope import concerned, scaled_group, worst_share
from tools.findings import Check, Fact, Finding, Sentence, clean, found
from tools.metrics.registry import measure
from tools.views.kernel_groups import streaming_runs
from tools.views.kernels import spec_for
from tools.views.profile import Profile
from tools.views.roofline import roofline

MEMORY_BOUND = "computation.memory_bound"


def memory_bound(profile: Profile) -> Check:
    """Runs of element-wise kernels that each read and write what one fused kernel would keep on the chip."""
    where = concerned(profile, "streaming_runs")
    limit = profile.thresholds["computation_finding_pct"]
    saved = 0.0 if where is None else where.share.value * (1.0 - _fused_factor(profile, where.worst))
    if where is None or saved < limit:
        return clean(
            MEMORY_BOUND,
            Sentence("Runs of element-wise kernels take {0} of the step.", (worst_share(profile, "streaming_runs"),)),
        )
    factor = _fused_factor(profile, where.worst)
    shown = _bandwidth(profile, where.worst)
    return found(
        MEMORY_BOUND,
        Finding(
            cause="memory_bound",
            claim=Sentence(
                "Runs of element-wise kernels, each reading and writing whole tensors, take {0} of the step.",
                (where.share,),
            ),
            confidence=confidence((saved, limit), at_most=0.85 if shown else 0.65),
            ranks=where.ranks,
            steps=where.share.steps,
            change=scaled_group(profile, where, "streaming_runs", factor, (1.0 + factor) / 2),
            details=(
                Sentence(
                    "They take {0}, in {1} per step.",
                    (
                        measure(profile, "kernel_group_ms", group="streaming_runs", rank=where.worst),
                        measure(profile, "kernel_group_count", group="streaming_runs", rank=where.worst),
                    ),
                ),
                *(
                    Sentence("Element-wise operators move {0} of the {1} that the device can.", shown)
                    for _ in shown[:1]
                ),
            ),
            against=(
                Sentence("Kernels that follow each other need not depend on each other; not every run can be fused."),
            ),
            disproved_by="the same operators compiled or fused by hand take as long",
            signals=(
                "chains of element-wise kernels",
                "arithmetic intensity below the ridge and bandwidth above threshold",
            ),
        ),
    )


def _bandwidth(profile: Profile, rank: int) -> tuple[Fact, ...]:
    table = roofline(profile, rank)
    if spec_for(profile.rank(rank)) is None or not (~table["math"] & table["bytes"].notna()).any():
        return ()
    return measure(profile, "streaming_gb_s", rank=rank), measure(profile, "device_peak_gb_s", rank=rank)


def _fused_factor(profile: Profile, rank: int) -> float:
    runs = streaming_runs(profile, rank)
    return float(runs["fused_ns"].sum() / max(int(runs["duration_ns"].sum()), 1))
