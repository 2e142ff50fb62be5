"""Operators that compute on the host: double precision by accident, and chains that fusion would shorten."""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.answers import cannot_answer, clean, confidence, measure_all, measure_ranks, say
from tools.analyzers.support.changes import shortened, shortened_on
from tools.findings import Check, Finding
from tools.metrics.computation import host_math_rows
from tools.metrics.host.operator_groups import host_group
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.whatif.change import Change

HALF_SIZE = 0.5  # 32-bit operands: twice as many per vector register and half the traffic
TUNED = 0.15  # of its time that a convolution keeps in the tuned library, which has none for 64 bit
FUSED = 1 / 3  # a fused run of element-wise operators still reads its operands and writes one result


def host_double(profile: Profile) -> Check | Finding:
    """Operators with 64-bit operands on the host."""
    numbers, limit = profile.run.rank_numbers, profile.thresholds["computation_finding_pct"]
    if not any(len(host_math_rows(profile, rank, "")) for rank in numbers):
        return cannot_answer("no matrix operator with recorded types ran", "a profile taken with record_shapes=True")
    shares = measure_ranks(profile, numbers, "host_group_pct", group="fp64")
    above = tuple(rank for rank in numbers if shares[rank].value >= limit)
    worst = max(numbers, key=lambda rank: shares[rank].value)
    share = shares[worst]
    if not above:
        return clean(say("Operators in double precision run {0} of the step.", share))
    slow = measure(profile, "host_group_pct", group="fallback", rank=worst)
    return Finding(
        cause="underutilization",
        mechanism="fallback_unit" if 2.0 * slow.value >= share.value else None,
        claim=say("Operators in double precision run {0} of the step on the host.", share),
        confidence=confidence((share.value, limit), at_most=0.85),
        ranks=above,
        steps=share.steps,
        change=_single(profile, above),
        details=(say("Convolutions outside the tuned library, which has none for this precision, run {0}.", slow),),
        against=(say("Double precision may be wanted."),),
        disproved_by="the model's parameters and inputs are all in single precision",
        signals=("fp32 or fp64 matmul on tensor-core hardware",),
        hints={"precision": "fp32"},
    )


def _single(profile: Profile, ranks: tuple[int, ...]) -> Change:
    """All double operators at half their time, convolutions in the tuned library."""
    change: Change = ()
    for rank in ranks:
        view, slow = profile.rank(rank), host_group(profile, rank, "fallback")
        rows = host_group(profile, rank, "fp64")
        first, last = (np.searchsorted(view.start[slow], ends[rows], side="left") for ends in (view.start, view.end))
        change += shortened(view, rows[last <= first], HALF_SIZE)  # those without a slow one inside
        change += shortened(view, slow, TUNED, HALF_SIZE)
    return change


def host_memory_bound(profile: Profile) -> Check | Finding:
    """Runs of element-wise operators on the host that each read and write whole tensors."""
    shares = measure_ranks(profile, profile.run.rank_numbers, "host_group_pct", group="elementwise_runs")
    if not any(len(profile.rank(rank).host_compute_rows) for rank in shares):
        return cannot_answer("no operators are recorded", "a trace with ProfilerActivity.CPU")
    limit = profile.thresholds["computation_finding_pct"]
    saved = {rank: share.value * (1.0 - FUSED) for rank, share in shares.items()}
    above = tuple(rank for rank in shares if saved[rank] >= limit)
    worst = max(saved, key=lambda rank: saved[rank])
    share = shares[worst]
    if not above:
        return clean(say("Runs of element-wise operators take {0} of the step.", share))
    amounts = measure_all(profile, "host_group_ms", "host_group_count", group="elementwise_runs", rank=worst)
    text = "Runs of element-wise operators, each reading and writing whole tensors, take {0} of the step."
    return Finding(
        cause="memory_bound",
        claim=say(text, share),
        confidence=confidence((saved[worst], limit), at_most=0.8),
        ranks=above,
        steps=share.steps,
        change=shortened_on(
            profile, above, lambda view: host_group(profile, view.rank.rank, "elementwise_runs"), FUSED
        ),
        details=(say("They take {0}, in {1} per step.", *amounts),),
        against=(say("Operators that follow each other need not depend on each other; not every run can be fused."),),
        disproved_by="the same operators compiled or fused by hand take as long",
        signals=("chains of element-wise kernels",),
    )
