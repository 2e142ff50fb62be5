"""Answers about evaluations and saves of a run without a trace: what its output shows of their time and number."""

from __future__ import annotations

import re

from hermes_agent.evidence.citations import cited_ids, sentences, without_citations
from hermes_agent.questions.answers.named_lines import may_state
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, paragraph
from hermes_agent.questions.reading.question import YES_OR_NO, Question, wording
from tools.analyzers.steps.output_warnings import evaluation_times
from tools.findings import Fact
from tools.run.recorded.job_log import JobLog

CHECKS = ("step_time.side_work", "storage.periodic_stall")  # state what such work adds to the steps
OF_EVALUATIONS = re.compile(r"\b(evaluat|validat)", re.IGNORECASE)
OF_SAVES = re.compile(r"\b(sav|checkpoint)", re.IGNORECASE)
HOW_OFTEN = re.compile(r"\bhow (often|many|frequent\w*)\b|\b(interval|frequency)\b|\b(when|which steps?)\b")
LONGEST = re.compile(r"\b(longest|slowest|most)\b")
SHARE = re.compile(r"\b(share|percent\w*|fraction|proportion|how much)\b")


def evaluations(discussion: Discussion, question: Question) -> str | None:
    """How long evaluations take and how often they are, as far as the output shows it; None where a trace was read, no
    output was, or evaluations were found as a cause and the question is whether they are slow."""
    profile = discussion.profile()
    log = profile.run.job_log
    if profile.traced or log is None:
        return None
    if YES_OR_NO.search(question.words) and _is_cause(discussion, "evaluation_stall"):
        return None
    stated = paragraph(discussion.say(each.template, *each.facts) for each in evaluation_times(profile, log))
    cost, often = _cost(discussion, OF_EVALUATIONS), _places(discussion)
    if HOW_OFTEN.search(question.words):
        return blocks([often or wording("evaluations_uncounted"), stated, cost])
    share = SHARE.search(question.words) and not cost
    gap = "" if cost or (stated and not share) else _gap(discussion)
    if not (stated or cost or gap):
        unknown = wording("evaluations_open") if often else wording("no_evaluations")
        unknown = paragraph([unknown, "" if often else may_state(discussion, "evaluation")])
        return blocks([unknown, often, _between(discussion)])
    longest = _longest(discussion, log) if LONGEST.search(question.words) else ""
    return blocks([longest, stated, cost, gap, _share(discussion) if share and not gap else "", often if gap else ""])


def saves(discussion: Discussion, question: Question) -> str | None:
    """How many lines name a save and what the steps next to them take longer; None where a trace or the monitor's
    records were read, no output was, or saves were found as a cause."""
    profile = discussion.profile()
    log = profile.run.job_log
    if profile.traced or log is None or profile.run.records is not None or _is_cause(discussion, "checkpoint_stall"):
        return None
    noted = discussion.measured("noted_saves")
    if noted is None:
        return paragraph([wording("no_saves_logged"), may_state(discussion, "save")])
    cost = _cost(discussion, OF_SAVES) or wording("saves_open")
    lines = discussion.say(wording("saves_noted"), noted)
    return blocks([lines, cost] if HOW_OFTEN.search(question.words) else [cost, lines])


def _is_cause(discussion: Discussion, cause: str) -> bool:
    return any(each.cause == cause for each in discussion.diagnosis.causes)


def _cost(discussion: Discussion, of: re.Pattern[str]) -> str:
    """The sentences with figures of the checks that state what such work adds to the steps."""
    known = {each.analyzer: each for each in discussion.diagnosis.checks if each.status in ("found", "clean")}
    texts = [text for name in CHECKS if name in known for text in known[name].text]
    said = [each for text in texts for each in sentences(text) if cited_ids(each)]
    return paragraph(each for each in said if of.search(without_citations(each)))


def _places(discussion: Discussion) -> str:
    """At how many places the output names evaluations and how many steps lie between; empty where it names none."""
    places = discussion.measured("evaluation_places")
    if places is None:
        return ""
    apart = discussion.measured("evaluation_distance_steps")
    if apart is None:
        return discussion.say(wording("evaluation_places"), places)
    return discussion.say(wording("evaluation_distance"), places, apart)


def _gap(discussion: Discussion) -> str:
    """How much further the step lines around evaluations are apart than others; empty where they are not."""
    if discussion.measured("evaluation_gap_s") is None:
        return ""
    share = discussion.measured("evaluation_gap_pct")
    of_all = "" if share is None else discussion.say(wording("evaluation_gap_share"), share)
    return paragraph([discussion.say(wording("evaluation_gap")), of_all, wording("evaluation_gap_holds")])


def _longest(discussion: Discussion, log: JobLog) -> str:
    """The longest evaluation whose time is stated, with its line; empty without several."""
    if len(log.evaluation_times) < 2:
        return ""
    line = max(log.evaluation_times, key=lambda each: float(each.value)).line
    return discussion.say(f"The longest evaluation took {{evaluation_s:statistic=max}}, by line {line}.")


def _share(discussion: Discussion) -> str:
    """What all stated evaluations take together, next to what the steps take."""
    whole = discussion.measured("stated_evaluation_pct")
    if whole is not None:
        return discussion.say("Evaluations take {0} of the training.", whole)
    together = discussion.measured("evaluations_stated_s")
    if together is None:
        return wording("evaluation_share_open")
    return paragraph([discussion.say("Together they take {0}.", together), _between(discussion)])


def _between(discussion: Discussion) -> str:
    """What the printed steps take together, and how far the first and the last line are apart, which holds all else."""
    facts: list[Fact | None] = [discussion.measured(each) for each in ("printed_steps_s", "step_lines_s")]
    known = [each for each in facts if each is not None]
    return discussion.say(wording("steps_and_lines"), *known) if len(known) == len(facts) else ""
