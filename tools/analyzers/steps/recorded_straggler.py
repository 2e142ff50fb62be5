"""Does one rank take longer by itself than the others, for no reason that the records name?"""

from __future__ import annotations

from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, measure_all, say
from tools.analyzers.support.recorded import saving
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.metrics.recorded.own_time import known_lateness
from tools.views.profile import Profile

NEEDS = "records of all ranks with `monitor.watch_model(model)` or `with monitor.waiting():`, which show their own time"
SURE = 0.85  # who is late is measured; why is not
TAKEN_OFF = "data wait, collections and waiting for a core"


@check(
    *("communication.slowest_rank", "Straggler by records", "Is one rank slower for no recorded reason?"),
    causes=("straggler",),
    from_records="host",
)
def recorded_straggler(profile: Profile) -> Check | None:
    """The slowest rank by its own time, beyond data wait, collections and waiting for a core; asked without a trace."""
    if profile.traced:
        return None
    series, late = profile.series, known_lateness(profile)
    if series is None or late is None:
        return cannot_answer("the records do not show the own time of several ranks", NEEDS)
    cost, excess = measure_all(profile, "unnamed_excess_ms", "unnamed_excess_pct", rank=late.rank)
    limits = profile.thresholds
    if excess.value < limits["host_slowdown_pct"] or 100.0 * cost.value < limits["noted_pct"] * series.mean_ms:
        text = (
            f"Beyond {TAKEN_OFF} rank {late.rank} takes {{0}} longer than the others, which makes steps {{1}} longer."
        )
        return clean(say(text, excess, cost))
    text = (
        f"Rank {late.rank} takes {{0}} longer by itself than the others, and they wait {{1}} per step for it;"
        f" {TAKEN_OFF} are subtracted."
    )
    return found(
        Finding(
            cause="straggler",
            claim=say(text, excess, cost),
            confidence=confidence(
                (excess.value, limits["host_slowdown_pct"]),
                (late.steadiness, limits["straggler_steadiness"]),
                at_most=SURE,
            ),
            ranks=(late.rank,),
            saving=saving(profile, cost.value, 0.5, 1.1, "own time of the slowest rank beyond the others'"),
            against=(say("What the rank does in that time is not recorded: its share of the work may be larger."),),
            disproved_by="another rank is late once the ranks have changed machines",
            signals=("one rank's own time is the longest in steady steps",),
            hints={"rank": str(late.rank)},
        )
    )
