"""Does torch.compile compile functions again while the job runs, by its own log?"""

from __future__ import annotations

import re

from tools.analyzers.support.answers import found, say
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding
from tools.metrics.recorded.recompilations import by_count
from tools.views.profile import Profile

SHOWN = 3  # functions
OF_SIZES = "size mismatch"  # of guards on the shape of a tensor
SURE = 0.6  # that functions are compiled again is stated; what it costs a step is not
NO_COST = "what a recompilation costs is not in these lines"


@check(
    *("cpu.logged_recompilations", "Recompilations by torch.compile's log", "Does torch.compile log recompilations?"),
    causes=("operator_compilation",),
    mechanisms=("dynamic_shape",),
    from_records="output",
)
def logged_recompilations(profile: Profile) -> Check | None:
    """The functions that are compiled again most often, with the reason that their first lines state."""
    log = profile.run.job_log
    if log is None or not log.recompilations:
        return None
    return found(*(_of_function(profile, place) for place in range(1, min(len(log.recompilations), SHOWN) + 1)))


def _of_function(profile: Profile, place: int) -> Finding:
    log = profile.run.job_log
    assert log is not None
    each = by_count(log)[place - 1]
    count, limits = (
        measured(profile, name, place=place) for name in ("logged_recompilations", "logged_recompile_limits")
    )
    facts: list[Fact] = []
    parts = []
    for fact, text in ((count, "compiles {{n0}} ({{n1}}) again, {{{}}}"), (limits, REACHED if count else REACHED_BY)):
        if fact is not None:
            parts.append(text.format(len(facts)))
            facts.append(fact)
    reason = "" if not each.reason else "; a reason that it gives: {n2}"
    names = (each.function, "/".join(each.place.split("/")[-2:]), _short(each.reason))
    claim = say(f"`torch.compile` {', and '.join(parts)}{reason}.", *facts, names=names)
    return Finding(
        cause="operator_compilation",
        mechanism="dynamic_shape" if OF_SIZES in each.reason else None,
        claim=claim,
        confidence=SURE,
        impact_ms=0.0,
        impact_method=NO_COST,
        disproved_by="no further line of this kind comes after the first steps",
        signals=("compile or recompile events inside steady steps",),
    )


def _short(reason: str) -> str:
    """The reason without what does not tell two of them apart."""
    sizes = SIZES.match(reason)
    return (
        reason if sizes is None else f"size of {sizes[1]} at index {sizes[2]}: expected {sizes[3]}, actual {sizes[4]}"
    )


SIZES = re.compile(
    r"tensor '(.{1,100}?)' size mismatch at index (\d{1,4})\. expected (\S{1,20}), actual ([^\s.]{1,20})"
)
REACHED = "reaches the limit of that in {{{}}}"
REACHED_BY = "reaches its limit of recompilations for {{n0}} ({{n1}}) in {{{}}}"
