"""Does the step copy parameters or activations back from host memory, layer by layer?"""

from __future__ import annotations

from tools.analyzers.support.answers import affected, clean, confidence, say, worst_of
from tools.analyzers.support.figures import measure_ranks
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding, Saving
from tools.metrics.registry import measure
from tools.views.profile import Profile

CAP = 0.8  # sizes and order show what is copied; its content no trace names
ALIKE = 0.01  # of the copies' bytes and of their time: ranks that differ less do the same
NAMED = 8  # ranks named one by one
HALVED = 0.5  # of the copies' time is saved where the data is kept in half as many bytes
METHOD = "time of these copies in which nothing computes, as far as the host keeps up"


@check(
    *("memory.offload", "Offloaded data", "Does the step copy parameters or activations back from host memory?"),
    causes=("memory_pressure",),
    mechanisms=("offload_stall",),
    needs=(Need.COPIES,),
)
def offload(profile: Profile) -> Check | Finding:
    """Large host-to-device copies of sizes that recur and alternate with kernels, while nothing computes."""
    ranks = [view.rank.rank for view in profile.ranks if view.rank.has_device]
    lost = measure_ranks(profile, ranks, "offload_exposed_ms")
    shares = {rank: 100.0 * fact.value / profile.rank(rank).wall_ms.mean() for rank, fact in lost.items()}
    worst = worst_of(shares)
    chosen = affected(shares, profile.thresholds["upload_pct"])
    if not chosen:
        return clean(say("Copies to the device that alternate with kernels hold it up for {0} per step.", lost[worst]))
    step_ms, saved_ms = float(profile.rank(worst).wall_ms.mean()), lost[worst].value
    moved = measure(profile, "offload_gb", rank=worst)
    compute = measure(profile, "part_ms", part="compute", rank=worst)
    text = (
        "{0} per step return from host memory in copies of recurring sizes between kernels, as parameters or "
        "activations that are offloaded do; for {1} of it the device computes nothing."
    )
    return Finding(
        cause="memory_pressure",
        mechanism="offload_stall",
        claim=say(f"{_alike(profile, chosen, worst)}{text}", moved, lost[worst]),
        confidence=confidence((shares[worst], profile.thresholds["upload_pct"]), at_most=CAP),
        ranks=chosen,
        # No replay: calls that block because the launch queue is full would keep their time.
        saving=Saving(step_ms, saved_ms, HALVED * saved_ms, saved_ms, METHOD),
        details=(say("Prefetching hides no more of it than the {0} for which the device computes.", compute),),
        signals=("host-device swap copies on the critical path",),
    )


def _alike(profile: Profile, ranks: tuple[int, ...], worst: int) -> str:
    """The several ranks that all copy as much and as long as the worst one, to begin a claim with; else nothing."""
    figures = [measure_ranks(profile, ranks, name) for name in ("offload_gb", "offload_exposed_ms")]
    apart = [abs(fact.value / each[worst].value - 1.0) for each in figures for fact in each.values()]
    if len(ranks) < 2 or max(apart) > ALIKE:
        return ""
    named = f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}" if len(ranks) <= NAMED else f"{len(ranks)} ranks"
    return f"On {named} alike (figures of rank {worst}): "
