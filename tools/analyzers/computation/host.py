"""Operators that compute on the host: double precision by accident, and chains that fusion would shorten."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.analyzers.support.changes import shortened
from tools.analyzers.support.confidence import confidence
from tools.findings import Check, Fact, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.computation import host_math_rows
from tools.metrics.host.operator_groups import host_group
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.whatif.change import Change

DOUBLE, MEMORY_BOUND = "computation.fp64", "computation.memory_bound"
HALF_SIZE = 0.5  # 32-bit operands: twice as many per vector register and half the traffic
TUNED = 0.15  # of its time that a convolution keeps in the tuned library, which has none for 64 bit
FUSED = 1 / 3  # a fused run of element-wise operators still reads its operands and writes one result


def host_double(profile: Profile) -> Check:
    """Operators with 64-bit operands on the host."""
    numbers = profile.run.rank_numbers
    if not any(len(host_math_rows(profile, rank, "")) for rank in numbers):
        return cannot_answer(
            DOUBLE, "no matrix operator with recorded types ran", "a profile taken with record_shapes=True"
        )
    shares = _shares(profile, "fp64")
    limit = profile.thresholds["computation_finding_pct"]
    above = tuple(rank for rank in numbers if shares[rank].value >= limit)
    worst = max(numbers, key=lambda rank: shares[rank].value)
    if not above:
        return clean(DOUBLE, Sentence("Operators in double precision run {0} of the step.", (shares[worst],)))
    slow = measure(profile, "host_group_pct", group="fallback", rank=worst)
    return found(
        DOUBLE,
        Finding(
            cause="underutilization",
            mechanism="fallback_unit" if 2.0 * slow.value >= shares[worst].value else None,
            claim=Sentence("Operators in double precision run {0} of the step on the host.", (shares[worst],)),
            confidence=confidence((shares[worst].value, limit), at_most=0.85),
            ranks=above,
            steps=shares[worst].steps,
            change=_single(profile, above),
            details=(
                Sentence(
                    "Convolutions outside the tuned library, which has none for this precision, run {0}.", (slow,)
                ),
            ),
            against=(Sentence("Double precision may be wanted."),),
            disproved_by="the model's parameters and inputs are all in single precision",
            signals=("fp32 or fp64 matmul on tensor-core hardware",),
            hints={"precision": "fp32"},
        ),
    )


def _single(profile: Profile, ranks: tuple[int, ...]) -> Change:
    """All double operators at half their time, convolutions in the tuned library."""
    change: Change = ()
    for rank in ranks:
        view, slow = profile.rank(rank), host_group(profile, rank, "fallback")
        rows = host_group(profile, rank, "fp64")
        change += shortened(view, rows[~_holding(profile, rank, rows, slow)], HALF_SIZE, (1.0 + HALF_SIZE) / 2)
        change += shortened(view, slow, TUNED, HALF_SIZE)
    return change


def _holding(profile: Profile, rank: int, rows: NDArray[np.int64], inner: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the rows hold one of the inner ones."""
    view = profile.rank(rank)
    first = np.searchsorted(view.start[inner], view.start[rows], side="left")
    last = np.searchsorted(view.start[inner], view.end[rows], side="left")
    return np.asarray(last > first)


def host_memory_bound(profile: Profile) -> Check:
    """Runs of element-wise operators on the host that each read and write whole tensors."""
    shares = _shares(profile, "elementwise_runs")
    if not any(len(profile.rank(rank).host_compute_rows) for rank in shares):
        return cannot_answer(MEMORY_BOUND, "no operators are recorded", "a trace with ProfilerActivity.CPU")
    limit = profile.thresholds["computation_finding_pct"]
    saved = {rank: share.value * (1.0 - FUSED) for rank, share in shares.items()}
    above = tuple(rank for rank in shares if saved[rank] >= limit)
    worst = max(saved, key=lambda rank: saved[rank])
    share = shares[worst]
    if not above:
        return clean(MEMORY_BOUND, Sentence("Runs of element-wise operators take {0} of the step.", (share,)))
    facts = (
        measure(profile, "host_group_ms", group="elementwise_runs", rank=worst),
        measure(profile, "host_group_count", group="elementwise_runs", rank=worst),
    )
    rows = {rank: host_group(profile, rank, "elementwise_runs") for rank in above}
    return found(
        MEMORY_BOUND,
        Finding(
            cause="memory_bound",
            claim=Sentence(
                "Runs of element-wise operators, each reading and writing whole tensors, take {0} of the step.",
                (share,),
            ),
            confidence=confidence((saved[worst], limit), at_most=0.8),
            ranks=above,
            steps=share.steps,
            change=tuple(
                scale for rank in above for scale in shortened(profile.rank(rank), rows[rank], FUSED, (1.0 + FUSED) / 2)
            ),
            details=(Sentence("They take {0}, in {1} per step.", facts),),
            against=(
                Sentence("Operators that follow each other need not depend on each other; not every run can be fused."),
            ),
            disproved_by="the same operators compiled or fused by hand take as long",
            signals=("chains of element-wise kernels",),
        ),
    )


def _shares(profile: Profile, group: str) -> dict[int, Fact]:
    return {rank: measure(profile, "host_group_pct", group=group, rank=rank) for rank in profile.run.rank_numbers}
