"""Do matrix operators on the host reach the rate that the same cores reach with others?"""

from __future__ import annotations

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.changes import shortened
from tools.analyzers.support.figures import measure_ranks
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.metrics.host.rates import slow_factor
from tools.metrics.registry import measure
from tools.views.host.rates import host_rates, rows_of, slow_math
from tools.views.host.scheduler_ticks import ON_TICKS, takes_turns
from tools.views.profile import Profile

FULL_TYPES = ("fp32", "fp64")  # every core computes these itself; slow numbers of these types are denormal
EMULATED = "Cores without instructions for {n0} compute it by conversion."
DENORMAL = "Numbers below the smallest normal one (denormal) take a core a hundred cycles each."


@check(
    *("computation.achieved_rate", "Achieved FLOP/s on the host", "Do matrix operators reach the rate of the cores?"),
    causes=("underutilization",),
    mechanisms=("denormal_numbers", "unsupported_dtype"),
)
def achieved_rate(profile: Profile) -> Check | Finding | None:
    """Matrix operators that run at a small part of the rate of the fastest one of the same rank."""
    if profile.run.has_device:
        return None
    known = [rank for rank in profile.run.rank_numbers if len(host_rates(profile, rank))]
    if not known:
        return cannot_answer(
            "no large matrix operator with recorded shapes ran several times on the host",
            "a profile of some steps taken with record_shapes=True",
        )
    shares = measure_ranks(profile, known, "slow_math_pct")
    worst = worst_of(shares)
    fastest = measure(profile, "math_gflops", which="fast", rank=worst)
    limit = profile.thresholds["computation_finding_pct"]
    if shares[worst].value < limit:
        return clean(say("Matrix operators reach {0}, and none stays far below it.", fastest))
    if takes_turns(profile):
        return cannot_answer(*ON_TICKS)
    ranks = affected(shares, limit)
    slow = slow_math(profile, worst)
    longest = slow.iloc[int(slow["total_ns"].to_numpy().argmax())]
    precision = str(longest["precision"]) or "fp32"
    full = precision in FULL_TYPES
    rate = measure(profile, "math_gflops", which="slow", rank=worst)
    text = "{n0} reaches {0} where matrix operators on such cores reach {1} or more; such ones take {2} of the step."
    return Finding(
        cause="underutilization",
        mechanism="denormal_numbers" if full else "unsupported_dtype",
        claim=say(text, rate, fastest, shares[worst], names=(str(longest["name"]),)),
        confidence=confidence(
            (shares[worst].value, limit),
            (fastest.value / max(rate.value, 1e-9), profile.thresholds["slow_math_ratio"]),
            at_most=0.9 if full else 0.8,
        ),
        ranks=ranks,
        steps=shares[worst].steps,
        change=tuple(
            scale
            for rank in ranks
            for scale in shortened(profile.rank(rank), rows_of(slow_math(profile, rank)), slow_factor(profile, rank))
        ),
        details=(say(DENORMAL) if full else say(EMULATED, names=(precision,)),),
        disproved_by=(
            "`torch.set_flush_denormal(True)` leaves the step time as it is"
            if full
            else "the same step in fp32 takes as long"
        ),
        signals=("both utilisations below threshold",),
        hints={"precision": precision},
    )
