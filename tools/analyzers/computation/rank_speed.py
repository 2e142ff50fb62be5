"""Does one rank run the same kernels, or operators on the host, slower than the others?"""

from __future__ import annotations

from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say
from tools.analyzers.support.changes import shortened
from tools.analyzers.support.kernel_scope import device_ranks
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding
from tools.metrics.rank_speed import HOST_SPEED_COLUMNS as SPEED_COLUMNS
from tools.metrics.rank_speed import device_speed, host_speed
from tools.metrics.registry import measure
from tools.views.kernel_groups import group_rows
from tools.views.profile import Profile

AGREEING = 0.6  # share of the compared time that is slower, below which content rather than speed differs
SURE = 1.5  # times the limit: in a few steps one of two equal ranks may happen to be slower


@check(
    *("computation.slow_device", "Device speed across ranks", "Does one rank's device run slower than the others?"),
    causes=("slow_device",),
    needs=(Need.RANKS,),
)
def slow_device(profile: Profile) -> Check | Finding:
    """A rank whose kernels take longer than the same kernels elsewhere."""
    if not profile.run.has_device:
        return _on_hosts(profile)
    table = device_speed(profile)
    if table.empty:
        return cannot_answer(
            "no kernel ran often enough on two ranks to be compared", "several steps of ranks that run the same model"
        )
    views = [profile.rank(rank).rank for rank in device_ranks(profile)]
    if len({view.devices[0].name for view in views if view.devices}) > 1:
        return cannot_answer("the ranks run on different device models", "ranks on equal devices")
    limit = 1.0 + profile.thresholds["device_slowdown_pct"] / 100
    slow = table[(table["ratio"] >= limit) & (table["slower_share"] >= AGREEING)]
    if slow.empty:
        worst = int(table["rank"].to_numpy()[int(table["ratio"].to_numpy().argmax())])
        fact = measure(profile, "device_slowdown_pct", rank=worst)
        return clean(say("The slowest rank's kernels take {0} longer than the median rank's.", fact))
    rows = zip(slow["rank"], slow["ratio"], slow["slower_share"], strict=True)
    return found(*(_finding(profile, *row) for row in rows))


def _finding(profile: Profile, rank: int, ratio: float, slower_share: float) -> Finding:
    fact = measure(profile, "device_slowdown_pct", rank=rank)
    return Finding(
        cause="slow_device",
        claim=say(f"The kernels of rank {rank} take {{0}} longer than the same kernels on the median rank.", fact),
        confidence=confidence((fact.value, profile.thresholds["device_slowdown_pct"]), (slower_share, AGREEING)),
        ranks=(rank,),
        steps=fact.steps,
        change=shortened(profile.rank(rank), group_rows(profile, rank, "computing"), 1.0 / ratio),
        against=(say("Clocks and temperatures are not in the trace; data-dependent kernels differ by content."),),
        disproved_by="the same kernels measured alone on this device are as fast as elsewhere",
        signals=("same kernels slower on one rank",),
    )


def _on_hosts(profile: Profile) -> Check | Finding:
    """A rank whose operators take longer than the same operators elsewhere, step after step."""
    table = host_speed(profile)
    if table.empty:
        return cannot_answer("the ranks share no operators of equal names and shapes", "ranks that run the same model")
    place = int(table["ratio"].to_numpy().argmax())
    worst, ratio, share, steps = (table[name].to_numpy()[place].item() for name in SPEED_COLUMNS)
    fact, limit = measure(profile, "host_slowdown_pct", rank=worst), profile.thresholds["host_slowdown_pct"]
    if fact.value < limit or share < AGREEING or steps < 1.0:
        return clean(say("The slowest rank's operators take {0} longer than the same ones on the other ranks.", fact))
    view = profile.rank(worst)
    text = (
        f"The operators of rank {worst} take {{0}} longer than the same operators on the other ranks, in every recorded"
        " step."
    )
    return Finding(
        cause="slow_device",
        claim=say(text, fact),
        confidence=confidence((fact.value, SURE * limit), (share, AGREEING), at_most=0.8),
        ranks=(worst,),
        steps=fact.steps,
        change=shortened(view, view.outermost(view.in_steps(view.host_compute_rows)), 1.0 / ratio),
        against=(say("What else ran on that rank's cores is not in the trace."),),
        disproved_by="the same operators alone on these cores are as fast as elsewhere",
        signals=("same kernels slower on one rank",),
        symptom_of=("cpu_contention", "garbage_collection"),
    )
