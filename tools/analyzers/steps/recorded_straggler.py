"""Does one rank take longer by itself than the others, for no reason that the records name?"""

from __future__ import annotations

from tools.analyzers.support.confidence import confidence
from tools.analyzers.support.recorded import saving
from tools.findings import Check, Fact, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.recorded.own_time import Lateness, known_lateness
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.series import RunSeries

NAME = "communication.slowest_rank"
NEEDS = "records of all ranks with `monitor.watch_model(model)` or `with monitor.waiting():`, which tell their own time"
SURE = 0.85  # who is late is measured; why is not


def recorded_straggler(profile: Profile) -> Check:
    """The slowest rank by its own time, beyond data wait, collections and waiting for a core."""
    series, late = profile.series, known_lateness(profile)
    if series is None or late is None:
        return cannot_answer(NAME, "the records do not tell the own time of several ranks", NEEDS)
    cost, excess = _figures(profile, late)
    limits = profile.thresholds
    if excess.value < limits["host_slowdown_pct"] or 100.0 * cost.value < limits["noted_pct"] * series.mean_ms:
        text = (
            f"Beyond data wait, collections and waiting for a core rank {late.rank} takes longest by itself, {{0}} of"
            " the others' own time more than they, which makes steps {1} longer."
        )
        return clean(NAME, Sentence(text, (excess, cost)))
    return found(NAME, _finding(profile, series, late))


def _figures(profile: Profile, late: Lateness) -> tuple[Fact, Fact]:
    cost = measure(profile, "unnamed_excess_ms", rank=late.rank)
    return cost, measure(profile, "unnamed_excess_pct", rank=late.rank)


def _finding(profile: Profile, series: RunSeries, late: Lateness) -> Finding:
    (cost, excess), limits = _figures(profile, late), profile.thresholds
    text = (
        f"Rank {late.rank} takes longer by itself than the others, by {{0}} of their own time, and they wait {{1}} per"
        " step for it; data wait, collections and waiting for a core are taken off already."
    )
    return Finding(
        cause="straggler",
        claim=Sentence(text, (excess, cost)),
        confidence=confidence(
            (excess.value, limits["host_slowdown_pct"]),
            (late.steadiness, limits["straggler_steadiness"]),
            at_most=SURE,
        ),
        ranks=(late.rank,),
        saving=saving(profile, cost.value, 0.5, 1.1, "own time of the slowest rank beyond the others'"),
        against=(Sentence("What the rank does in that time is not recorded: its share of the work may be larger."),),
        disproved_by="the late rank is another one once the ranks have changed machines",
        signals=("one rank's own time is the longest in steady steps",),
        hints={"rank": str(late.rank)},
    )
