"""Does a run without a device compute in double precision by accident?"""

from __future__ import annotations

from tools.analyzers.margin import confidence
from tools.analyzers.row_change import shortened
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.profilers.host_math import host_math_rows
from tools.profilers.profile import Profile

NAME = "computation.fp64"
HALF_SIZE = 0.5  # 32-bit operands: twice as many per vector register and half the traffic


def host_double(profile: Profile) -> Check:
    """Matrix multiplications and convolutions with 64-bit operands on the host."""
    numbers = profile.run.rank_numbers
    if not any(len(host_math_rows(profile, rank, "")) for rank in numbers):
        return cannot_answer(
            NAME, "no matrix operator with recorded types ran", "a profile taken with record_shapes=True"
        )
    shares = {rank: measure(profile, "host_math_pct", precision="fp64", rank=rank) for rank in numbers}
    limit = profile.thresholds["computation_finding_pct"]
    above = tuple(rank for rank in numbers if shares[rank].value >= limit)
    worst = max(shares.values(), key=lambda fact: fact.value)
    if not above:
        return clean(NAME, Sentence("Matrix operators in double precision run {0} of the step.", (worst,)))
    return found(
        NAME,
        Finding(
            cause="underutilization",
            claim=Sentence("Matrix operators in double precision run {0} of the step on the host.", (worst,)),
            confidence=confidence((worst.value, limit), at_most=0.8),
            ranks=above,
            steps=worst.steps,
            change=tuple(
                scale
                for rank in above
                for scale in shortened(
                    profile.rank(rank), host_math_rows(profile, rank, "fp64"), HALF_SIZE, (1.0 + HALF_SIZE) / 2
                )
            ),
            against=(Sentence("Double precision may be wanted."),),
            disproved_by="the model's parameters and inputs are all in single precision",
            signals=("fp32 or fp64 matmul on tensor-core hardware",),
            hints={"precision": "fp32"},
        ),
    )
