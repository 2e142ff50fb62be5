"""Step lines of another program in the same text: they are named, and are no part of the series."""

from __future__ import annotations

from tools.analyzers.support.answers import say
from tools.analyzers.support.figures import measured
from tools.findings import Sentence
from tools.metrics.registry import measure
from tools.run.recorded.job_log import JobLog, LinesApart
from tools.views.profile import Profile

MOST_NAMED = 3
OTHER_FORM = "step line{s} of another form ({{n0}}), as of another program"
SAMPLES = "line{s} of single steps ({{n0}}), samples of those whose sum the epochs state"
OTHER_TRAINING = "step line{s} of another training ({{n0}})"
OTHER_TOTAL = "progress bar{s} with another total ({{n0}}), as of another run, another unit or an evaluation"
ONE, RANGE = "{0} a step", "{0} to {1} a step"
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
        alone = len(each.steps) == 1
        what = _what(log, each).format(s="" if alone else "s")
        lines = f"Line {each.first_line} is a" if alone else f"Lines {each.first_line} to {each.last_line} are"
        states = f"It states {ONE}" if alone else f"They state {RANGE}"
        text = f"{lines} {what}: left out. {states}{'' if wait is None else WAITS}."
        said.append(say(text, *facts, *(() if wait is None else (wait,)), names=(each.grammar,)))
    return said


def _what(log: JobLog, each: LinesApart) -> str:
    if each.samples or each.training:
        return SAMPLES if each.samples else OTHER_TRAINING
    return OTHER_TOTAL if each.grammar in log.grammars else OTHER_FORM


def waits_elsewhere(profile: Profile) -> bool:
    """Whether step lines that are left out wait for data as long as counts: no answer for all lines is "no" then."""
    log = profile.run.job_log
    places = range(1, len(log.lines_apart) + 1) if log is not None else ()
    waits = [measured(profile, "apart_wait_pct", place=place) for place in places]
    return any(each is not None and each.value >= profile.thresholds["data_wait_pct"] for each in waits)
