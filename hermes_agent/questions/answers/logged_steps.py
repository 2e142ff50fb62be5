"""Answers about steps of a run without a trace: one step, the first one, how steady they are, what changed."""

from __future__ import annotations

import re

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.questions.answers.drifts import drift, left_out
from hermes_agent.questions.answers.job_output import start
from hermes_agent.questions.answers.steps import which_step
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, capital, paragraph
from hermes_agent.questions.reading.question import Question, wording
from hermes_agent.report.step_course import rounded
from tools.run.recorded.job_log import JobLog

FLUCTUATION, CHANGE = "step_time.fluctuation", "step_time.change_point"
EVEN_BY_CLOCK = "The means over several steps differ by no more than a clock of whole seconds does not show."
REASON = re.compile(r"\bwhy\b")


def first_step(discussion: Discussion, question: Question) -> str | None:
    """What the first step line states against the later ones; None where a trace was read or no line states a time."""
    if _log(discussion) is None or discussion.measured("first_step_ms") is None:
        return None
    excess = discussion.measured("first_step_excess_pct")
    longer = excess is not None and excess.value >= discussion.profile().thresholds["fluctuation_pct"]
    why = wording("start_why") if longer and REASON.search(question.words) else ""
    return paragraph([start(discussion, question), why])


def one_step(discussion: Discussion, question: Question) -> str | None:
    """The lines of the steps that are named; None where a trace was read or no series of steps."""
    if _log(discussion) is None or discussion.profile().series is None or not question.steps:
        return None
    return which_step(discussion, question)


def changed_after(discussion: Discussion, question: Question) -> str | None:
    """Where the step time changed by the records, whatever step is named; None where a trace was read."""
    series = discussion.profile().series
    if _log(discussion) is None or series is None:
        return None
    if question.steps and min(question.steps) > int(series.usual["step"].max()):
        return which_step(discussion, question)
    check = discussion.check(CHANGE)
    found = check is not None and check.status == "found"
    return blocks(
        [paragraph(check.text) if check and found else drift(discussion, question), wording("only_step_times")]
    )


def how_steady(discussion: Discussion, question: Question) -> str | None:
    """How much single steps vary, or the values of lines where these are of several steps; None with a trace."""
    series = discussion.profile().series
    if discussion.profile().traced:
        return None
    if series is None:
        return wording("no_steps_read")
    if series.averaged:
        text = "The values of the lines: {series_step_ms:statistic=median} in the median, the lowest "
        text += "{series_step_ms:statistic=min}, the highest {series_step_ms:statistic=max}."
        lead = f"How much single steps vary is not known: {series.averaged}."
        spread_pct = 100.0 * (float(series.slowest_ms.max()) / float(series.slowest_ms.min()) - 1.0)
        if rounded(discussion.profile(), spread_pct):
            return paragraph([lead, EVEN_BY_CLOCK, left_out(discussion.profile())])
        return paragraph([lead, discussion.say(text), left_out(discussion.profile())])
    check = discussion.check(FLUCTUATION)
    said = paragraph(check.text) if check is not None and cited_ids(" ".join(check.text)) else ""
    usual = "A step takes {series_step_ms:statistic=median} in the median, 95 % of them at most "
    usual += "{series_step_ms:statistic=p95}, the longest {series_step_ms:statistic=max}."
    return paragraph([discussion.say(usual), said])


def between_epochs(discussion: Discussion, _: Question) -> str | None:
    """How far the step lines are apart next to what the steps take, which bounds all else; None with a trace."""
    if _log(discussion) is None:
        return None
    known = [discussion.measured(each) for each in ("printed_steps_s", "step_lines_s")]
    facts = [each for each in known if each is not None]
    if len(facts) < len(known):
        return wording("between_epochs_open")
    return paragraph([wording("between_epochs_open"), discussion.say(wording("steps_and_lines"), *facts)])


def restarted(discussion: Discussion, _: Question) -> str | None:
    """How often the step number falls; None where a trace was read or no output."""
    log = _log(discussion)
    if log is None:
        return None
    check = discussion.check("step_time.restarts")
    if check is not None and check.text:
        return paragraph(map(capital, check.text))
    counted = not log.steps.empty and log.epochs is None and not log.bar_total
    return wording("no_restart") if counted else wording("restart_open")


def _log(discussion: Discussion) -> JobLog | None:
    """The job's output where no trace was read."""
    profile = discussion.profile()
    return None if profile.traced else profile.run.job_log
