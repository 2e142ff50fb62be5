"""Answers that set two steps or two ranks against each other, by part of the step or by kernel, operator, layer."""

from __future__ import annotations

import re
from dataclasses import replace

from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.display import PART_TITLES
from hermes_agent.questions.answers.events import more
from hermes_agent.questions.answers.figures import figure
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, listed, milliseconds, paragraph, row_table, span
from hermes_agent.questions.reading.asked import Asked, topic_of
from hermes_agent.questions.reading.question import Question, lexicon, wording
from hermes_agent.questions.tool_context import called
from tools.agent_tools.compare import CompareRow
from tools.errors import UsageError

LISTED = 8
OF_PLACES = re.compile(r"\b(ranks?|steps?|iterations?|gpus?) \d+\b")
BOTH_ENDS = re.compile(r"\bfirst\b.*\b(last|final)\b")
CHANGED = re.compile(
    r"\bwhat (has |had |was |is )?(chang\w*|happen\w*|different|new|else)\b|\bchang\w* (at|in|from|with)\b"
)
BY = {
    "name": r"\b(by|per|in|which|what|each) (the )?(kernels?|operators?|ops|names?|calls?)\b|\bkernel by kernel\b",
    "module": r"\b(by|per|which) (the )?(layers?|modules?)\b",
    "phase": r"\b(by|per|which) (the )?phases?\b",
    "stack": r"\b(by|per|which) (the )?(python )?(lines?|functions?)\b",
    "shape": r"\b(by|per|which) (the )?shapes?\b",
}


def two_runs(discussion: Discussion, _: Question) -> str | None:
    """How to compare two runs whose outputs lie in one folder, and the mean step of the one that was read; None where
    no file holds another run."""
    profile = discussion.profile()
    log, series = profile.run.job_log, profile.series
    if log is None or series is None or not log.unused or profile.traced:
        return None
    names = [quoted(each) for each in (*log.used, *log.unused)[:LISTED]]
    more = " and others" if len(log.used) + len(log.unused) > LISTED else ""
    read = f"By {listed([quoted(each) for each in log.used[:LISTED]])} a step takes {{series_step_ms:statistic=mean}}"
    why = f"; {series.averaged}" if series.averaged else ""
    files = f"The files: {', '.join(names)}{more}."
    return paragraph([wording("two_runs"), files, discussion.say(f"{read} on average{why}.")])


def two_places(discussion: Discussion, question: Question) -> str | None:
    """The differences of the two steps or ranks that the question names, of one step that changed from the one before.

    None where it names neither.
    """
    if len(question.steps) == 1 and CHANGED.search(question.words):
        return _changed_at(discussion, question)
    if len(question.steps) == 1 and BOTH_ENDS.search(question.text.lower()):
        return f"Only step {question.steps[0]} was recorded, so there are no two steps to compare."
    if len(question.ranks) == 2:
        between, (a, b) = "ranks", question.ranks
    elif len(question.steps) == 2:
        between, (a, b) = "steps", question.steps
    else:
        return None
    rank = question.ranks[0] if between == "steps" and len(question.ranks) == 1 else None
    if not discussion.profile().traced and (tabled := _of_topic(discussion, question, between[:-1], (a, b), rank)):
        return tabled
    by = next((name for name, pattern in BY.items() if re.search(pattern, question.words)), "part")
    given = {"between": between, "a": a, "b": b, "rank": rank, "by": by, "limit": LISTED}
    found = called(discussion, "compare", question.page, **given)
    rows = [row for row in found.rows if isinstance(row, CompareRow)]
    noun = between.removesuffix("s")
    whole = [discussion.measure("part_ms", part="wall", **_place(noun, each, rank)) for each in (a, b)]
    lead = discussion.say(f"{noun.capitalize()} {a} takes {{0}}, {noun} {b} takes {{1}}.", *whole)
    own = _of_topic(discussion, question, noun, (a, b), rank) if by == "part" else ""
    if between == "steps" and rank is None and len(discussion.ranks) > 1:
        lead = f"As the mean over ranks: {lead}"
    what = "part of the step" if by == "part" else {"name": "kernel or operator", "stack": "line"}.get(by, by)
    cells = [
        [row.id, milliseconds(row.a_ms), milliseconds(row.b_ms), f"{row.delta_ms:+.3g}",
         PART_TITLES.get(row.name, row.name)]
        for row in rows
    ]  # fmt: skip
    largest = f"The largest differences by {what}, ms per step; diff is {noun} {b} minus {noun} {a}:"
    return blocks(
        [own, lead, largest, row_table(("id", f"{noun} {a}", f"{noun} {b}", "diff", what), cells), more(found)]
    )


def _of_topic(discussion: Discussion, question: Question, noun: str, pair: tuple[int, int], rank: int | None) -> str:
    """The time per step of the part that the question names, at both places; empty where it names none."""
    topic = topic_of(OF_PLACES.sub(" ", question.words))
    if topic is None or topic.title == lexicon().topics[-1].title or "time" not in topic.figures:
        return ""
    ranks, steps = (pair, ()) if noun == "rank" else (() if rank is None else (rank,), pair)
    try:
        parts = [
            figure(discussion, Asked(topic, "time", ranks=(at,) if noun == "rank" else ranks,
                                     steps=(at,) if noun == "step" else steps))
            for at in pair
        ]  # fmt: skip
    except UsageError:
        return ""
    return paragraph(parts)


def _changed_at(discussion: Discussion, question: Question) -> str:
    """The step that is named against the one recorded before it."""
    step, known = question.steps[0], sorted(int(each) for each in discussion.profile().step_ms.index)
    if step not in known:
        return f"This run has no such step; it has {span('step', known)}."
    if step == known[0]:
        return f"Step {step} is the first that was recorded, so what changed in it is not assessable from this run."
    before = known[known.index(step) - 1]
    pair = replace(question, steps=(before, step))
    by_name = replace(pair, words=f"{question.words} by kernel")
    return blocks([two_places(discussion, pair) or "", two_places(discussion, by_name) or ""])


def _place(noun: str, number: int, rank: int | None) -> dict[str, int]:
    return {noun: number} | ({"rank": rank} if rank is not None else {})
