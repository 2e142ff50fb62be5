"""Step lines of another program in the same text: they are named, and are no part of the series."""

from __future__ import annotations

from tools.analyzers.support.answers import say
from tools.analyzers.support.figures import measured
from tools.findings import Sentence
from tools.metrics.registry import measure
from tools.views.profile import Profile

MOST_NAMED = 3
TEXT = "Lines {} to {} are step lines of another form ({{n0}}), as of another program, and are left out: they state "
RANGE = "{0} to {1} a step"
WAITS = ", {2} of it waiting for data on average"


def lines_apart(profile: Profile) -> list[Sentence]:
    """What step lines of other forms state, which stand before or behind those that are used."""
    log = profile.run.job_log
    series = profile.series
    if log is None or series is None or series.origin != "job_log":
        return []
    said = []
    for place, each in enumerate(log.lines_apart[:MOST_NAMED], start=1):
        facts = [measure(profile, "apart_step_ms", place=place, statistic=which) for which in ("min", "max")]
        wait = measured(profile, "apart_wait_pct", place=place)
        text = TEXT.format(each.first_line, each.last_line) + RANGE + ("" if wait is None else WAITS) + "."
        said.append(say(text, *facts, *(() if wait is None else (wait,)), names=(each.grammar,)))
    return said


def waits_elsewhere(profile: Profile) -> bool:
    """Whether step lines that are left out wait for data as long as counts: no answer for all lines is "no" then."""
    log = profile.run.job_log
    places = range(1, len(log.lines_apart) + 1) if log is not None else ()
    waits = [measured(profile, "apart_wait_pct", place=place) for place in places]
    return any(each is not None and each.value >= profile.thresholds["data_wait_pct"] for each in waits)
