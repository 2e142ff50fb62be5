"""Do ranks wait in collectives for a rank that comes late, and is it always the same one?"""

from __future__ import annotations

from tools.analyzers.communication_straggler import late_ranks, left_out, straggler
from tools.analyzers.communication_untraced import untraced_straggler
from tools.analyzers.excess import HOST_CAUSES, balance
from tools.analyzers.margin import confidence
from tools.findings import Check, Fact, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.profilers.arrivals import arrivals, blame
from tools.profilers.profile import Profile

NAME = "communication.arrival_skew"
SKEW_STEPS = 8  # fewer steps cannot show that the late rank changes as a rule
SKEW_SHARE = 0.2  # of the steps that the second most awaited rank leads; less is an exception


def arrival_skew(profile: Profile) -> Check:
    """A straggler or data skew, told apart by who is waited for from step to step; else a late rank not traced."""
    answer = _between_traced(profile)
    unseen = None if answer.status == "found" else untraced_straggler(profile)
    return answer if unseen is None else found(NAME, unseen)


def _between_traced(profile: Profile) -> Check:
    if len(profile.ranks) < 2:
        return cannot_answer(
            NAME,
            "there is one rank's trace only: waiting for a late rank and transfer cannot be told apart",
            "the traces of the other ranks for the same steps",
        )
    if arrivals(profile).empty:
        return cannot_answer(
            NAME,
            "no collective could be matched between the traced ranks",
            "traces of ranks of the same job and group that cover the same whole steps",
        )
    ratio = measure(profile, "collective_wait_pct")
    limits = profile.thresholds
    waiting_ms = max(measure(profile, "exposed_wait_ms", rank=rank).value for rank in profile.run.rank_numbers)
    wait_pct = 100.0 * waiting_ms / profile.median_step_ms
    if wait_pct < limits["noted_pct"] or ratio.value < limits["collective_wait_pct"]:
        return clean(NAME, *_support(profile, ratio))
    late = late_ranks(profile)
    if late:
        return found(NAME, straggler(profile, late))
    led = sorted(blame(profile)["steps"].tolist(), reverse=True)
    if sum(led) >= SKEW_STEPS and led[1] >= SKEW_SHARE * sum(led):
        return found(NAME, _data_skew(profile, wait_pct))
    return Check(
        NAME,
        "cannot_answer",
        support=_support(profile, ratio),
        reason="the ranks wait for each other, but not steadily for the same one in the few steps recorded",
        needs="a longer recording, twenty steps or more, of all ranks",
    )


def _support(profile: Profile, ratio: Fact) -> tuple[Sentence, ...]:
    idle = measure(profile, "exposed_wait_ms")
    matched = measure(profile, "matched_collectives")
    return (
        Sentence("A rank only waits for a later one for {0} per step.", (idle,)),
        Sentence("Of the time inside {0} collectives that several ranks share, {1} is waiting.", (matched, ratio)),
        *left_out(profile),
    )


def _data_skew(profile: Profile, wait_pct: float) -> Finding:
    waiting, ratio = measure(profile, "exposed_wait_ms"), measure(profile, "collective_wait_pct")
    counts = blame(profile)["steps"]
    leading = [int(rank) for rank in counts.index[counts > 0]]
    change = balance(profile)
    return Finding(
        cause="data_skew",
        claim=Sentence(
            "The ranks wait {0} per step for each other, and the rank that comes last changes from step to step.",
            (waiting,),
        ),
        confidence=confidence(
            (wait_pct, profile.thresholds["cause_share_pct"]),
            (ratio.value, profile.thresholds["collective_wait_pct"]),
            (len(leading), 2.0),
            at_most=0.7,
        ),
        ranks=tuple(leading),
        steps=waiting.steps,
        change=change,
        impact_ms=None if change else waiting.value,
        impact_method="" if change else "exposed waiting, mean per step and rank",
        details=tuple(
            Sentence(
                f"rank {rank} is waited for most in {{0}} steps.", (measure(profile, "steps_waited_for", rank=rank),)
            )
            for rank in leading
        ),
        against=(Sentence("Pauses of the host at random moments on every rank would look the same."),),
        disproved_by="equal batches (same length, same content) on all ranks with the waiting unchanged",
        signals=("arrival order changes from step to step", "compute time follows sequence length or batch content"),
        symptom_of=HOST_CAUSES,
    )
