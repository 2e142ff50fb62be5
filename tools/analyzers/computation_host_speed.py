"""Does one rank run the same host operators slower than the others?"""

from __future__ import annotations

from tools.analyzers.margin import confidence
from tools.analyzers.row_change import shortened
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.profilers.host_groups import outermost
from tools.profilers.host_speed import SPEED_COLUMNS, host_speed
from tools.profilers.profile import Profile

NAME = "computation.slow_device"
SURE = 1.5  # times the limit: in a few steps one of two equal ranks may happen to be slower
AGREEING = 0.6  # share of the compared time in operators that are slower, below which content rather than speed differs


def host_slow_device(profile: Profile) -> Check:
    """A rank whose operators take longer than the same operators elsewhere, step after step."""
    if len(profile.ranks) < 2:
        return cannot_answer(NAME, "one rank's trace has nothing to be compared with", "the traces of several ranks")
    table = host_speed(profile)
    if table.empty:
        return cannot_answer(
            NAME, "the ranks share no operators with equal names and shapes", "ranks that run the same model"
        )
    place = int(table["ratio"].to_numpy().argmax())
    worst, ratio, share, steps = (table[name].to_numpy()[place].item() for name in SPEED_COLUMNS)
    fact = measure(profile, "host_slowdown_pct", rank=worst)
    limit = profile.thresholds["host_slowdown_pct"]
    if fact.value < limit or share < AGREEING or steps < 1.0:
        text = "The slowest rank's operators take {0} longer than the same ones on the other ranks."
        return clean(NAME, Sentence(text, (fact,)))
    factor = 1.0 / ratio
    rows = outermost(profile.rank(worst), profile.rank(worst).in_steps(profile.rank(worst).host_compute_rows))
    return found(
        NAME,
        Finding(
            cause="slow_device",
            claim=Sentence(
                f"The operators of rank {worst} take {{0}} longer than the same operators on the other ranks, in every"
                " recorded step.",
                (fact,),
            ),
            confidence=confidence((fact.value, SURE * limit), (share, AGREEING), at_most=0.8),
            ranks=(worst,),
            steps=fact.steps,
            change=shortened(profile.rank(worst), rows, factor, (1.0 + factor) / 2),
            against=(Sentence("What else ran on that rank's cores is not in the trace."),),
            disproved_by="the same operators alone on these cores are as fast as elsewhere",
            signals=("same kernels slower on one rank",),
            symptom_of=("cpu_contention", "garbage_collection"),
        ),
    )
