"""Does the clock of the cores fall while they compute?"""

from __future__ import annotations

from dataclasses import replace

from tools.analyzers.computation.rank_speed import slow_device
from tools.analyzers.support.answers import cannot_answer, clean, confidence, say
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Saving
from tools.metrics.registry import measure
from tools.views.device.core_clock import readings
from tools.views.profile import Profile

NOMINAL = ", which stands in for the nominal one that no file states"
ALWAYS_LOW = "A clock that is low all the time would not show."
SHOWN = "the traces show already what the slower device costs"
METHOD = "trace: computing time in proportion to the clock, by half"


@check(
    *("computation.core_clock", "Clock of the cores", "Do the cores of an NPU compute below their clock?"),
    causes=("slow_device",),
)
def core_clock(profile: Profile) -> Check | Finding | None:
    """The mean clock while kernels compute against the highest one that was read on any rank."""
    read = [view.rank.rank for view in profile.ranks if len(readings(view)[0])]
    if not read:
        return None
    own = {rank: fact for rank in read if (fact := measured(profile, "core_clock_mhz", rank=rank)) is not None}
    if not own:
        return cannot_answer("no kernel computes inside the steps", "a trace of steps in which the device computes")
    top, limits = measure(profile, "highest_core_clock_mhz"), profile.thresholds
    worst = min(own, key=lambda rank: (own[rank].value, rank))
    below = {rank: 100.0 * (1.0 - fact.value / top.value) for rank, fact in own.items()}
    text = f"While the cores of rank {worst} compute, they run at {{0}} on average; the highest clock read is {{1}}"
    text = f"{text}{NOMINAL}."
    if below[worst] < limits["clock_below_others_pct"]:
        return clean(say(text, own[worst], top), say(ALWAYS_LOW))
    compute = measure(profile, "part_ms", part="compute", rank=worst)
    step_ms, most = float(profile.rank(worst).wall_ms.mean()), compute.value * below[worst] / 100.0
    sure = confidence((below[worst], limits["clock_below_others_pct"]), at_most=limits["clock_confidence"])
    if sum(len(readings(profile.rank(rank))[0]) for rank in read) < limits["few_loaded_readings"]:
        sure = min(sure, limits["few_readings_confidence"])
    finding = Finding(
        cause="slow_device",
        mechanism="down_clock",
        claim=say(text, own[worst], top),
        confidence=sure,
        ranks=tuple(rank for rank in own if below[rank] >= limits["clock_below_others_pct"]),
        against=(say("Kernels that wait for memory or for the host do not slow down with the clock."),),
        saving=Saving(step_ms, 0.5 * most, 0.0, most, METHOD),
    )
    known = slow_device.once(profile)
    # Where the traces show already what a slower device costs, the clock is the reason and saves nothing more.
    return replace(finding, saving=None, impact_ms=0.0, impact_method=SHOWN) if known and known.findings else finding
