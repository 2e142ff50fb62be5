"""Answers to "is it this or that?": a judgement of each, and which of them was found."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_agent.questions.answers.causes import ALTERNATIVES, about, suspect
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, capital, listed
from hermes_agent.questions.reading.question import Question, Subject
from hermes_agent.questions.short_form import in_short


def suspect_each(discussion: Discussion, question: Question) -> str | None:
    """The judgement of each alternative that a question names in short; of a single subject its evidence in full."""
    if not ALTERNATIVES.search(question.words) or len(question.subjects) < 2:
        return suspect(discussion, question)
    rows = (_in_short(discussion, each, question.words) for each in question.subjects)
    return blocks([_found(discussion, question.subjects), *rows])


def _in_short(discussion: Discussion, subject: Subject, words: str) -> str:
    text = in_short(about(discussion, subject, words))
    named = subject.title.lower() in text.partition("\n")[0].lower()
    return text if named else f"{capital(subject.title)}: {text}"


def _found(discussion: Discussion, subjects: Sequence[Subject]) -> str:
    """Which of the alternatives are among the causes found, the one that is ranked first in front."""
    places = {each.title: place for each in subjects if (place := _place(discussion, each)) is not None}
    others = [each.title for each in subjects if each.title not in places]
    if not places:
        return f"None of them is among the causes found: {listed([each.title for each in subjects], 'or')}."
    ordered = sorted(places, key=lambda each: places[each])
    if len(ordered) == 1:
        return f"Of these, {ordered[0]} is among the causes found; {listed(others)} {_verb(others)} not."
    rest = f"; {listed(others)} {_verb(others)} not" if others else ""
    return f"{capital(listed(ordered))} are among the causes found, {ordered[0]} ranked first{rest}."


def _verb(titles: Sequence[str]) -> str:
    return "is" if len(titles) == 1 else "are"


def _place(discussion: Discussion, subject: Subject) -> int | None:
    """The place of the first listed cause of a subject, from 0; None where none is listed."""
    for place, each in enumerate(discussion.diagnosis.causes):
        if each.cause in subject.causes and subject.mechanism in (None, each.mechanism):
            return place
    return None
