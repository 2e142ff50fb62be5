"""Scorers of one answer: each a short function, from 0 to 1, None where the question does not ask for it.

What counts is structure: which statement says what of which place, and what it cites. An answer has to stand in its
first statements and say little else before, so that saying everything is not right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evals.agent.assertions import PROSE, Assertion
from evals.agent.questions import Label, Question, fact_of
from evals.agent.stated import MOST_FIGURES, figures_in
from hermes_agent.evidence.citations import written
from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.model.diagnosis import Diagnosis, EvidenceRecord
from hermes_agent.statements.context import claim_of
from hermes_agent.statements.graph import Edge, edge_of, not_on_edge
from tools.errors import HermesError
from tools.findings import Argument
from tools.findings import Fact as Measured
from tools.judgement.catalog import label as label_of

LEAD = 6  # statements in which an answer has to stand, one more for each further figure
LEAST_PRECISION = 1 / 3  # of the statements up to the answer, of ranks, of unknowns, of tools
GENERIC = frozenset("mean median per step steps on of the in time rank group place share a with".split())  # noqa: SIM905
PREDICTIONS = ("predicted_", "joint_")


@dataclass(frozen=True)
class Answered:
    """One answer to a question: what it asserts, the tools that were called for it, and the figures measured live."""

    question: Question
    label: Label
    assertions: tuple[Assertion, ...]
    tools: tuple[str, ...]
    facts: Sequence[Sequence[Measured]]  # for each figure asked for, all that are right
    diagnosis: Diagnosis
    index: EvidenceIndex
    understood: bool = True

    @property
    def lead(self) -> tuple[Assertion, ...]:
        """The first statements, without those that only repeat the question."""
        asked = _words(self.question.asked.ask)
        own = [each for each in self.assertions if _words(each.text) - asked or each.cause or each.opens]
        return tuple(own[: LEAD + max(len(self.facts) - 1, 0)])

    def cited(self, assertion: Assertion) -> list[EvidenceRecord]:
        """The figures that a statement cites."""
        return [self.index.evidence[name] for name in assertion.ids if name in self.index.evidence]


def tool_choice(answer: Answered) -> float | None:
    """Whether a fitting tool was called, and not all of them."""
    wanted, called = {*answer.question.asked.tools_any_of}, {*answer.tools}
    if not wanted:
        return None
    return float(bool(wanted & called) and len(wanted & called) >= LEAST_PRECISION * len(called))


def answer_fact(answer: Answered) -> float | None:
    """Share of the expected figures that a statement gives for that place and quantity; 0 where most are others."""
    if not answer.facts:
        return None
    return sum(_given(answer, facts) for facts in answer.facts) / len(answer.facts) if _precise(answer) else 0.0


def abstained(answer: Answered) -> float | None:
    """Whether what the run cannot give is said to be unknown, by the source or check that is missing."""
    asked = answer.question.asked
    if not asked.abstains:
        return None
    if not answer.understood:
        return 0.0
    named = [each for each in answer.lead if each.kind == "unknown" and (each.cause or each.opens)]
    fitting = sum(_is_unknown(each, asked.unknown) for each in named)
    told = any(_names_missing(each, asked.missing) for each in answer.lead)
    listed = sum(each.kind == "unknown" for each in answer.assertions) > MOST_FIGURES
    return float((told or fitting > 0) and not listed and fitting >= LEAST_PRECISION * len(named))


def grounded_path(answer: Answered) -> float | None:
    """Whether a statement blames the right cause on the ranks where it is, in the part it spends, by its evidence."""
    if not answer.question.asked.causal_path:
        return None
    return float(any(_on_path(answer, each) for each in answer.lead if each.cause in answer.label.causes))


def right(answer: Answered) -> float:
    """1 where the answer holds the figures, the cause or the refusal that was asked for, and nothing false."""
    asked = answer.question.asked
    held = [answer.understood, bool(answer.assertions), not false_claims(answer), not _loose_words(answer)]
    held += [answer_fact(answer) in (None, 1.0), abstained(answer) in (None, 1.0)]
    held.append(not asked.causal_path or next(iter(blamed(answer)), "") in answer.label.causes)
    held += [any(_cites(answer, each, wanted) for each in answer.lead) for wanted in asked.must_cite]
    held += [any(re.search(text, each.text, re.IGNORECASE) for each in answer.lead) for text in asked.says]
    return float(all(held))


def grounded(answer: Answered) -> float:
    """1 where all that was asked for is cited by what measures it, the causal path is whole, and nothing is false."""
    figures = all(
        any(_gives(answer, each, fact) and _measuring(answer, each, fact) for each in answer.lead for fact in facts)
        for facts in answer.facts
    )
    cites = all(any(_cites(answer, each, wanted) for each in answer.lead) for wanted in answer.question.asked.must_cite)
    rests = any(each.ids or each.opens for each in answer.lead) or abstained(answer) == 1.0
    held = [answer.understood, figures, cites, rests, not false_claims(answer), not _loose_words(answer)]
    return float(all(held) and grounded_path(answer) in (None, 1.0) and abstained(answer) in (None, 1.0))


def both(answer: Answered) -> float:
    """1 where the answer is right and grounded."""
    return min(right(answer), grounded(answer))


def _loose_words(answer: Answered) -> list[str]:
    """Free text around a cause or an advice that no slot, graph or vocabulary of the product carries."""
    return [each.refused for each in answer.assertions if each.refused]


def blamed(answer: Answered) -> list[str]:
    """The causes that the first statements blame, in order."""
    return [each.cause for each in answer.lead if each.claim == "present"]


def false_claims(answer: Answered) -> list[str]:
    """Everything that the label of the run, the graph of the diagnosis and the evidence do not support."""
    found = [text for each in answer.assertions for text in _false(answer, each)]
    said = " ".join(each.text.lower() for each in answer.assertions)
    return found + [f"says {text!r}" for text in answer.question.asked.must_not_say if text.lower() in said]


def _false(answer: Answered, each: Assertion) -> Iterator[str]:
    yield from (f"cites {name}, which does not exist" for name in each.ids if name not in answer.index)
    yield from (f"misquotes {text}" for text in each.misquoted)
    yield from (f"states {each.text[:80]!r} without evidence" for _ in each.uncited[:1])
    if each.claim in ("present", "absent"):
        yield from _false_cause(answer, each)
    if each.by != "model" or each.kind == PROSE:
        return
    if each.kind == "unknown":
        yield from _false_unknown(answer, each)
    if each.kind == "advice" and not any(name[0] in "AC" for name in each.ids):
        yield "advises what the analyzers do not"
    if each.kind in ("measured", "predicted") or each.claim == "about":
        yield from _false_figures(answer, each)


def _false_cause(answer: Answered, each: Assertion) -> Iterator[str]:
    label, edge = answer.label, edge_of(answer.diagnosis, each.cause)
    if each.claim == "absent":
        if each.cause in label.causes or claim_of(answer.diagnosis, each.cause) != "absent":
            yield f"clears {each.cause}"
        return
    if each.cause not in (*label.causes, *label.also):
        yield f"blames {each.cause}"
    elif edge is None:
        yield f"blames {each.cause}, which was not found"
    elif each.by == "model":
        faults = list(not_on_edge(edge, each.ranks if each.kind == "causal" else (), each.part or None))
        yield from faults[:1]
        if each.kind == "causal" and label.ranks and each.cause in label.causes and {*each.ranks} - {*label.ranks}:
            yield f"blames {each.cause} on ranks {each.ranks}"


def _false_unknown(answer: Answered, each: Assertion) -> Iterator[str]:
    if each.cause and claim_of(answer.diagnosis, each.cause) in ("present", "absent"):
        yield f"calls {each.cause} unknown"
    known = {check.analyzer for check in answer.diagnosis.checks if check.status == "cannot_answer"}
    yield from (f"calls {name} unknown" for name in each.opens if name not in known)
    if not each.cause and not each.opens:
        yield "calls something unknown without naming a check"


def _false_figures(answer: Answered, each: Assertion) -> Iterator[str]:
    """Figures with another rank, another kind or another quantity than the statement names."""
    for record in answer.cited(each):
        rank = record.arguments.get("rank")
        if isinstance(rank, int) and each.ranks and rank not in each.ranks:
            yield f"puts {record.id} of rank {rank} on rank {each.ranks[0]}"
        predicted = record.metric.startswith(PREDICTIONS)
        if each.kind in ("measured", "predicted") and predicted != (each.kind == "predicted"):
            yield f"calls {record.id} {each.kind}"
        if not predicted and not _about_quantity(each, record.metric, record.arguments):
            yield f"calls {record.metric} something else"


def _about_quantity(each: Assertion, metric: str, arguments: Mapping[str, Argument]) -> bool:
    """Whether a statement shares a word with the name of what a metric measures."""
    try:
        name = label_of(metric, arguments)
    except HermesError:
        return True  # of a metric that has no name there is nothing to compare
    stems = {_stem(word) for word in _words(name) - GENERIC} or {_stem(word) for word in _words(name)}
    return bool(stems & {_stem(word) for word in _words(each.text)})


def _given(answer: Answered, facts: Sequence[Measured]) -> bool:
    return any(_gives(answer, each, fact) for each in answer.lead for fact in facts)


def _gives(answer: Answered, each: Assertion, fact: Measured) -> bool:
    """Whether a statement gives the figure of a fact, for its place and quantity."""
    value = next(iter(figures_in(written(fact.value, fact.unit))), None)
    if value is None or len(each.figures) > MOST_FIGURES or not any(figure.near(value) for figure in each.figures):
        return False
    cites, rank = _measuring(answer, each, fact), dict(fact.arguments).get("rank")
    if isinstance(rank, int) and (each.ranks or not cites):
        single = not each.ranks and len(answer.index.ranks) == 1
        if not single and (rank not in each.ranks or len({*each.ranks}) > 1 / LEAST_PRECISION):
            return False
    return cites or _about_quantity(each, fact.metric, dict(fact.arguments))


def _measuring(answer: Answered, each: Assertion, fact: Measured) -> bool:
    """Whether a statement cites an id that measures this fact."""
    return any(_measures(record, fact.metric, dict(fact.arguments)) for record in answer.cited(each))


def _measures(record: EvidenceRecord, metric: str, given: Mapping[str, Argument]) -> bool:
    return record.metric == metric and all(record.arguments.get(name) == value for name, value in given.items())


def _precise(answer: Answered) -> bool:
    """Whether enough of the figures up to the last fact are of the facts, and enough of the ranks."""
    facts, lead = [fact for each in answer.facts for fact in each], answer.lead
    giving = [place for place, each in enumerate(lead, 1) if any(_gives(answer, each, fact) for fact in facts)]
    wanted = {figure.dimension for fact in facts for figure in figures_in(written(fact.value, fact.unit))}
    read = lead[: max(giving, default=0)]
    valued = [each for each in read if any(figure.dimension in wanted for figure in each.figures)]
    ranks = {rank for each in lead for rank in each.ranks}
    places = {rank for fact in facts if isinstance(rank := dict(fact.arguments).get("rank"), int)}
    few = not places or len(ranks & places) >= LEAST_PRECISION * len(ranks)
    return few and len(giving) >= LEAST_PRECISION * len(valued)


def _is_unknown(each: Assertion, wanted: Sequence[str]) -> bool:
    """Whether a statement calls one of these unknown; several checks of a template may share one reason."""
    names = {each.cause, *each.opens}
    return bool(names & {*wanted}) and (each.by == "template" or len(each.opens) <= 1 / LEAST_PRECISION)


def _names_missing(each: Assertion, pattern: str) -> bool:
    """Whether a statement names the source that is missing, and measures nothing."""
    measured = any(figure.dimension in ("time", "share", "rate", "size") for figure in each.figures)
    return bool(pattern) and not measured and re.search(pattern, each.text, re.IGNORECASE) is not None


def _on_path(answer: Answered, each: Assertion) -> bool:
    label, edge = answer.label, edge_of(answer.diagnosis, each.cause)
    if edge is None or each.claim != "present":
        return False
    own = [record for record in answer.cited(each) if _shows(record, edge)]
    if not own or 2 * len(own) < len(answer.cited(each)):
        return False
    parts = {each.part} if each.by == "model" else _parts(answer, edge)
    ranks = not label.ranks or (bool(each.ranks) and {*each.ranks} <= {*label.ranks})
    return ranks and (not label.part or bool(parts & {*label.part}))


def _shows(record: EvidenceRecord, edge: Edge) -> bool:
    """Whether a figure is evidence of the cause itself: listed with it, or of its part at its ranks."""
    part, rank = record.arguments.get("part"), record.arguments.get("rank")
    here = not isinstance(rank, int) or rank in edge.ranks
    return (
        record.id in edge.symptoms or record.arguments.get("cause") == edge.cause.cause or (part in edge.parts and here)
    )


def _parts(answer: Answered, edge: Edge) -> set[str]:
    """Parts that the first statements of a template show at the ranks of a cause; a list of parts shows none."""
    found = set[str]()
    for each in answer.lead:
        shown = {str(record.arguments["part"]): record for record in answer.cited(each) if "part" in record.arguments}
        found |= {part for part, record in shown.items() if len(shown) <= 2 and part and _shows(record, edge)}
    return found


def _cites(answer: Answered, each: Assertion, wanted: str) -> bool:
    """Whether a statement is one of those that ``must_cite`` names."""
    return any(_cites_one(answer, each, text.strip()) for text in wanted.split("|"))


def _cites_one(answer: Answered, each: Assertion, wanted: str) -> bool:
    if wanted in ("advice", "verify"):
        known = [answer.index.advice[name] for name in each.ids if name in answer.index.advice]
        fitting = bool(known) and known[0].for_ in (*answer.label.causes, *answer.label.also) and len(known) <= 2
        return fitting and (wanted == "advice" or known[0].verify.rstrip(".").lower() in each.text.lower())
    if wanted.startswith("absent "):
        return each.claim == "absent" and each.cause == wanted.removeprefix("absent ")
    fact = fact_of(wanted)
    return any(_measures(record, fact.metric, fact.arguments) for record in answer.cited(each))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def _stem(word: str) -> str:
    return word.removesuffix("s").removesuffix("ing")[:6]
