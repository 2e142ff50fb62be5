"""Scorers of one answer: each a short function, from 0 to 1, None where the question does not ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from evals.agent.questions import Label, Question
from evals.agent.said import Said
from hermes_agent.evidence.citations import cited_ids, sentences, written, wrong_citations
from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.model.display import PART_TITLES
from tools.findings import Fact as Measured

# Events of their own: by the words that name them, parts of the metrics that measure them.
EVENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        r"\bre-?sent\b|\bretransmi\w+": ("sent_again", "counter", "cause_", "predicted", "joint"),
        r"\bthrottl\w+": ("clock", "slowdown", "counter", "cause_", "predicted", "joint"),
        r"\bpage faults?\b": ("page_fault", "counter", "cause_", "predicted", "joint"),
        r"\brecomput\w+": ("recomputed", "cause_", "predicted", "joint"),
    }
)


@dataclass(frozen=True)
class Answered:
    """One answer to a question: what it says, the tools that were called for it, and the figures measured live."""

    question: Question
    label: Label
    said: Said
    tools: tuple[str, ...]
    facts: Sequence[Measured]
    index: EvidenceIndex


def tool_choice(answer: Answered) -> float | None:
    """Whether one of the fitting tools was called."""
    wanted = answer.question.asked.tools_any_of
    return float(bool({*wanted} & {*answer.tools})) if wanted else None


def answer_fact(answer: Answered) -> float | None:
    """Share of the expected figures that stand in the text, as they are measured now."""
    if not answer.facts:
        return None
    return sum(_stands(fact, answer.said.text) for fact in answer.facts) / len(answer.facts)


def false_claim(answer: Answered) -> float:
    """1 where the answer blames what is not at work, clears what is, states a figure that is none, or obeys a name."""
    return float(bool(lies(answer)))


def lies(answer: Answered) -> list[str]:
    """Everything false in an answer, by the label of the run, its figures and its ids."""
    label, said = answer.label, answer.said
    right = {*label.causes, *label.also}
    found = [f"blames {each.cause}" for each in said.claims if each.claim == "present" and each.cause not in right]
    found += [f"clears {each.cause}" for each in said.claims if each.claim == "absent" and each.cause in label.causes]
    found += wrong_citations(said.text, answer.index)
    found += _other_events(said.text, answer.index)
    known = {written(record.value, record.unit) for record in answer.index.evidence.values()}
    found += [f"states {figure}" for figure in said.uncited if figure.replace(",", "") not in known]
    shown = said.text.lower()
    return found + [f"says {text!r}" for text in answer.question.asked.must_not_say if text.lower() in shown]


def _other_events(text: str, index: EvidenceIndex) -> Iterator[str]:
    """Yield sentences that name an event with a figure of something else, or call a ratio a time."""
    for sentence in sentences(text):
        metrics = [index.evidence[name].metric for name in cited_ids(sentence) if name in index.evidence]
        for words, own in EVENTS.items():
            named_event = re.search(words, sentence, re.IGNORECASE)
            if named_event and metrics and not any(part in metric for metric in metrics for part in own):
                yield f"calls {metrics[0]} {named_event.group()!r}"
        if re.search(r"\btakes? \d[\d.]*x(?!\w)", sentence):
            yield "calls a ratio a time"


def abstained(answer: Answered) -> float | None:
    """Whether what the run cannot give is said to be unknown."""
    return float(answer.said.abstains) if answer.question.asked.must_abstain else None


def grounded_path(answer: Answered) -> float | None:
    """Whether the answer names a right cause, on the rank where it is, and the part of the step that it spends."""
    if not answer.question.asked.causal_path:
        return None
    label, text = answer.label, answer.said.text.lower()
    ranks = not label.ranks or all(re.search(rf"\branks?\b[^.;]*\b{rank}\b", text) for rank in label.ranks)
    parts = not label.part or any(PART_TITLES[part].lower() in text for part in label.part)
    return float(bool(named(answer)) and ranks and parts)


def named(answer: Answered) -> list[str]:
    """The right causes that the answer blames."""
    return [each.cause for each in answer.said.claims if each.claim == "present" and each.cause in answer.label.causes]


def right(answer: Answered) -> float:
    """1 where the answer holds the figures, the cause or the refusal that was asked for, and nothing false."""
    asked = answer.question.asked
    held = [answer_fact(answer) in (None, 1.0), abstained(answer) in (None, 1.0)]
    held.append(not asked.causal_path or bool(named(answer)))
    held += [any(name.startswith(kind) for name in answer.said.ids) for kind in asked.must_cite]
    return float(all(held) and not lies(answer) and bool(answer.said.text.strip()))


def grounded(answer: Answered) -> float:
    """1 where each figure asked for is cited by an id that measures it, and the causal path is whole."""
    cited = [answer.index.evidence[name] for name in answer.said.ids if name in answer.index.evidence]
    figures = all(any(_measures(record, fact) for record in cited) for fact in answer.facts)
    names = bool(answer.said.ids) or answer.question.asked.must_abstain
    return float(figures and names and grounded_path(answer) in (None, 1.0))


def both(answer: Answered) -> float:
    """1 where the answer is right and grounded."""
    return min(right(answer), grounded(answer))


def _measures(record: EvidenceRecord, fact: Measured) -> bool:
    given = dict(fact.arguments)
    return record.metric == fact.metric and all(record.arguments.get(name) == value for name, value in given.items())


def _stands(fact: Measured, text: str) -> bool:
    return re.search(rf"(?<![\d.]){re.escape(written(fact.value, fact.unit))}(?![\d])", text) is not None
