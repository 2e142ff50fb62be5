"""Would fusing chains of element-wise operators on the host save time?"""

from __future__ import annotations

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, values, worst_of
from tools.analyzers.support.changes import shortened_on
from tools.analyzers.support.figures import measure_all, measure_ranks
from tools.findings import Check, Finding
from tools.intervals import length
from tools.views.host.elementwise_chains import chains
from tools.views.host.scheduler_ticks import ON_TICKS, takes_turns
from tools.views.profile import Profile

CAP = 0.8  # what a fused operator would need is an estimate


def host_chains(profile: Profile) -> Check | Finding:
    """Chains of which fused operators would need much less, on ranks without a device."""
    if not any(len(view.host_compute_rows) for view in profile.ranks):
        return cannot_answer("no operators are recorded", "a trace with ProfilerActivity.CPU")
    shares = measure_ranks(profile, profile.run.rank_numbers, "elementwise_chain_pct")
    fused = measure_ranks(profile, profile.run.rank_numbers, "fused_chain_pct")
    saved_pct = {rank: share.value * (1.0 - fused[rank].value / 100.0) for rank, share in shares.items()}
    worst, limit = worst_of(saved_pct), profile.thresholds["host_chain_pct"]
    if saved_pct[worst] < limit:
        text = "Chains of element-wise operators take {0} of the step; fused ones would need {1} of that."
        return clean(say(text, shares[worst], fused[worst]))
    if takes_turns(profile):
        return cannot_answer(*ON_TICKS)
    ranks = affected(values(saved_pct), profile.thresholds["computation_finding_pct"])
    text = (
        "Runs of element-wise operators, each reading and writing whole tensors, take {0} of the step; fused ones would"
        " need {1} of that."
    )
    amounts = measure_all(profile, "host_group_ms", "host_group_count", group="elementwise_runs", rank=worst)
    return Finding(
        cause="memory_bound",
        mechanism="elementwise_chain",
        claim=say(text, shares[worst], fused[worst]),
        confidence=confidence((saved_pct[worst], limit), at_most=CAP),
        ranks=ranks,
        steps=shares[worst].steps,
        change=tuple(
            scale
            for rank in ranks
            for scale in shortened_on(
                profile, [rank], lambda view: chains(profile, view.rank.rank)["row"].to_numpy(), _left(profile, rank)
            )
        ),
        details=(say("They take {0}, in {1} per step.", *amounts),),
        signals=("chains of element-wise kernels",),
    )


def _left(profile: Profile, rank: int) -> float:
    """Of the recorded time of the chains, what stays: all but what fusing saves of their time without delays."""
    table, view = chains(profile, rank), profile.rank(rank)
    whole_ns = float(length(view.covered(table["row"].to_numpy())))
    return 1.0 - float((table["ns"] - table["kept_ns"]).sum()) / max(whole_ns, 1.0)
