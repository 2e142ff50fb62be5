"""Does one rank's device run the same kernels slower than the others'?"""

from __future__ import annotations

from tools.analyzers.computation_scope import device_ranks
from tools.analyzers.margin import confidence
from tools.analyzers.row_change import shortened
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.profilers.device_speed import device_speed
from tools.profilers.kernel_groups import group_rows
from tools.profilers.profile import Profile

NAME = "computation.slow_device"
AGREEING = (
    0.6  # share of the compared time in kernels that are slower, below which content rather than the device differs
)


def slow_device(profile: Profile) -> Check:
    """A rank whose kernels take longer than the same kernels elsewhere."""
    if len(profile.ranks) < 2:
        return cannot_answer(NAME, "one rank's trace has nothing to be compared with", "the traces of several ranks")
    table = device_speed(profile)
    if table.empty:
        return cannot_answer(
            NAME,
            "no kernel ran often enough on two ranks to be compared",
            "several steps of ranks that run the same model",
        )
    names = {
        profile.rank(rank).rank.devices[0].name for rank in device_ranks(profile) if profile.rank(rank).rank.devices
    }
    if len(names) > 1:
        return cannot_answer(NAME, "the ranks run on different device models", "ranks on equal devices")
    limit = 1.0 + profile.thresholds["device_slowdown_pct"] / 100
    slow = table[(table["ratio"] >= limit) & (table["slower_share"] >= AGREEING)]
    if slow.empty:
        worst = int(table["rank"].to_numpy()[int(table["ratio"].to_numpy().argmax())])
        fact = measure(profile, "device_slowdown_pct", rank=worst)
        return clean(NAME, Sentence("The slowest rank's kernels take {0} longer than the median rank's.", (fact,)))
    return found(
        NAME,
        *(
            _finding(profile, rank, ratio, share)
            for rank, ratio, share in zip(slow["rank"], slow["ratio"], slow["slower_share"], strict=True)
        ),
    )


def _finding(profile: Profile, rank: int, ratio: float, slower_share: float) -> Finding:
    fact = measure(profile, "device_slowdown_pct", rank=rank)
    factor = 1.0 / ratio
    return Finding(
        cause="slow_device",
        claim=Sentence(
            f"The kernels of rank {rank} take {{0}} longer than the same kernels on the median rank.", (fact,)
        ),
        confidence=confidence((fact.value, profile.thresholds["device_slowdown_pct"]), (slower_share, AGREEING)),
        ranks=(rank,),
        steps=fact.steps,
        change=shortened(profile.rank(rank), group_rows(profile, rank, "computing"), factor, (1.0 + factor) / 2),
        against=(Sentence("Clocks and temperatures are not in the trace; data-dependent kernels differ by content."),),
        disproved_by="the same kernels measured alone on this device are as fast as elsewhere",
        signals=("same kernels slower on one rank",),
    )
