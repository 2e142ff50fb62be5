"""What the diagnosis found, for a question about what is wrong that no kind of answer could take up."""

from __future__ import annotations

import re

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.questions.answers import advice
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks
from hermes_agent.questions.reading.question import Question, wording

# A question for a reason, or for whether something is wrong: the diagnosis is about that.
TROUBLE = re.compile(
    r"\bwhy\b|\b(wrong|slow\w*|hang\w*|hung|stuck|freez\w*|froze\w*|crash\w*|fail\w*|bottlenecks?|problems?|issues?|normal"
    r"|bugs?|reasonable|culprits?|to blame|missing|to expect|expected|happen\w*|broken|forever)\b|\btime ?d? ?outs?\b"
    r"|\btakes? (far |way |much |so |too |very )+(long|much)\b|\b(training|step|epoch|iteration) (times?|speeds?)\b"
    r"|\b(debug|behind|increas\w*)\b"
    r"|^(which|what) (ranks?|[gn]pus?|nodes?|devices?)\b"
)
# What a step takes, and what of it.
OF_STEP = re.compile(
    r"\b(where|which parts?|what takes|what costs)\b.*\b(times?|slow\w*|long)\b"
    r"|\bhow (long|slow|fast)\b|\b(steps?|iterations?|epochs?|batch(es)?) (times?|takes?)\b|\bspends?\b.*\btime\b"
)
OF_DEVICES = re.compile(r"\b(gpus?|devices?|npus?)\b.*\b(used|busy|idle|low|utili[sz]\w*|bound)\b")
REASON = re.compile(
    r"\bwhy\b|^(which|who)\b"
    r"|^whats? (is |are )?(wrong|slow|happen\w*|went|goes|slows?|makes?|causes?|caused|holds?|limits?)\b"
)
TIMES = ("ns", "us", "ms", "s")
OTHERWISE = re.compile(
    r"\b(cases?|issues? like|similar|avoid|prevent|fix\w*|should (i|we)|would|(?<!what )could|what if)\b"
)


def by_diagnosis(discussion: Discussion, question: Question, understood: bool) -> str:
    """The diagnosis in short, where a question asks for what is wrong; empty for others.

    ``understood``: whether the kind of question is known, and only its figure is not.
    """
    if not TROUBLE.search(question.words) or (OTHERWISE.search(question.words) and not understood) or question.ids:
        return ""
    if understood:
        return by_diagnosis_alone(discussion)
    found = advice.summarise(discussion, question)
    return "" if not found else blocks([wording("by_diagnosis"), found])


def of_parts(discussion: Discussion, question: Question) -> str:
    """The diagnosis with its figures, where the time of a step or its parts are asked for and no trace and no series
    of steps gives them: timers, tables and single lines that it quotes do. Empty for other questions."""
    of_devices = OF_DEVICES.search(question.words) is not None
    named = question.ids or question.names or question.steps or question.ranks
    if named or not (of_devices or OF_STEP.search(question.words)):
        return ""
    profile, found = discussion.profile(), by_diagnosis_alone(discussion)
    if profile.measured or not cited_ids(found) or (of_devices and profile.run.counters is None):
        return ""
    known = discussion.evidence
    if not of_devices and not any(known[each].unit in TIMES for each in cited_ids(found) if each in known):
        return ""
    return found


def by_diagnosis_alone(discussion: Discussion) -> str:
    """The sentences of the diagnosis."""
    return " ".join(discussion.diagnosis.answer)


def with_diagnosis(discussion: Discussion, question: Question, text: str, measurable: bool) -> str:
    """An answer without any figure to why or which, with what the diagnosis found: first where it says nothing else."""
    if cited_ids(text) or question.steps or not REASON.search(question.words):
        return text
    found = by_diagnosis(discussion, question, understood=True)
    if not cited_ids(found):
        return text
    return blocks([text, found] if measurable else [found, text])
