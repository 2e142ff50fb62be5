"""Does one rank's device run the same kernels slower than the others'?"""

from __future__ import annotations

from tools.analyzers.support.changes import shortened
from tools.analyzers.support.confidence import confidence
from tools.analyzers.support.kernel_scope import device_ranks
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.rank_speed import HOST_SPEED_COLUMNS as SPEED_COLUMNS
from tools.metrics.rank_speed import device_speed, host_speed
from tools.metrics.registry import measure
from tools.views.kernel_groups import group_rows
from tools.views.profile import Profile

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


HOST_NAME = "computation.slow_device"
SURE = 1.5  # times the limit: in a few steps one of two equal ranks may happen to be slower
HOSTS_AGREEING = (
    0.6  # share of the compared time in operators that are slower, below which content rather than speed differs
)


def host_slow_device(profile: Profile) -> Check:
    """A rank whose operators take longer than the same operators elsewhere, step after step."""
    if len(profile.ranks) < 2:
        return cannot_answer(
            HOST_NAME, "one rank's trace has nothing to be compared with", "the traces of several ranks"
        )
    table = host_speed(profile)
    if table.empty:
        return cannot_answer(
            HOST_NAME, "the ranks share no operators with equal names and shapes", "ranks that run the same model"
        )
    place = int(table["ratio"].to_numpy().argmax())
    worst, ratio, share, steps = (table[name].to_numpy()[place].item() for name in SPEED_COLUMNS)
    fact = measure(profile, "host_slowdown_pct", rank=worst)
    limit = profile.thresholds["host_slowdown_pct"]
    if fact.value < limit or share < HOSTS_AGREEING or steps < 1.0:
        text = "The slowest rank's operators take {0} longer than the same ones on the other ranks."
        return clean(HOST_NAME, Sentence(text, (fact,)))
    factor = 1.0 / ratio
    view = profile.rank(worst)
    rows = view.outermost(view.in_steps(view.host_compute_rows))
    return found(
        HOST_NAME,
        Finding(
            cause="slow_device",
            claim=Sentence(
                f"The operators of rank {worst} take {{0}} longer than the same operators on the other ranks, in every"
                " recorded step.",
                (fact,),
            ),
            confidence=confidence((fact.value, SURE * limit), (share, HOSTS_AGREEING), at_most=0.8),
            ranks=(worst,),
            steps=fact.steps,
            change=shortened(profile.rank(worst), rows, factor, (1.0 + factor) / 2),
            against=(Sentence("What else ran on that rank's cores is not in the trace."),),
            disproved_by="the same operators alone on these cores are as fast as elsewhere",
            signals=("same kernels slower on one rank",),
            symptom_of=("cpu_contention", "garbage_collection"),
        ),
    )
