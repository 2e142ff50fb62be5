"""What an answer asserts, one statement at a time: kind, cause, ranks, part of the step, figures and what it cites."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evals.agent.stated import Figure, Stated, figures_in, stated
from hermes_agent.evidence.citations import cited_figures, cited_ids, is_figure_of, written
from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.llm.structured import parse_form
from hermes_agent.model.diagnosis import CheckRecord, Diagnosis
from hermes_agent.model.display import PART_TITLES, cause_title, rank_list
from hermes_agent.questions.reading.question import normalised, subjects_of
from hermes_agent.statements.checks import faults_of
from hermes_agent.statements.context import CheckContext
from hermes_agent.statements.record import Statement, Statements
from hermes_agent.statements.slots import BRACES
from tools.errors import ModelError

PROSE = "prose"  # of a model that did not answer in the form it was asked for
CITED = re.compile(r"[EAC]\d+")


@dataclass(frozen=True)
class Assertion:
    """One statement of an answer. ``by`` is who made it; ``opens`` are checks it says could not be answered.

    ``uncited`` are figures of a model's free text, ``misquoted`` figures that are not those of the id they cite;
    ``refused`` is why the words around a cause or an advice are not shown to a reader, "" where they may be.
    """

    by: str  # "template" or "model"
    kind: str  # a kind of statement, or "prose"
    text: str
    ids: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    ranks: tuple[int, ...] = ()
    cause: str = ""
    claim: str = ""
    part: str = ""
    opens: tuple[str, ...] = ()
    uncited: tuple[Figure, ...] = ()
    misquoted: tuple[str, ...] = ()
    refused: str = ""


def of_model(answer: str, diagnosis: Diagnosis, index: EvidenceIndex) -> tuple[Assertion, ...]:
    """A model's own answer before any check: its statements with the slots filled in, else its prose."""
    try:
        statements = parse_form(answer, Statements).statements
    except ModelError:
        return tuple(_of_prose(answer, index))
    return of_statements(statements, diagnosis, index)


def of_statements(
    statements: Sequence[Statement], diagnosis: Diagnosis, index: EvidenceIndex, guesses: Sequence[Statement] = ()
) -> tuple[Assertion, ...]:
    """Statements of a model; those among ``guesses`` are shown as guesses."""
    return tuple(_of_statement(each, diagnosis, index, guess=each in guesses) for each in statements)


def _of_statement(each: Statement, diagnosis: Diagnosis, index: EvidenceIndex, *, guess: bool) -> Assertion:
    slots = [match[1].strip() for match in BRACES.finditer(each.text)]
    text = f"{_of_cause(each, diagnosis)}{BRACES.sub(lambda match: _filled(match[1].strip(), index), each.text)}"
    ids = (*each.evidence, *(slot.partition(":")[0] for slot in slots if CITED.fullmatch(slot.partition(":")[0])))
    ranks = (*each.ranks, *(int(slot[5:]) for slot in slots if re.fullmatch(r"rank:\d+", slot)))
    asks = each.kind == "unknown" and each.text.rstrip().endswith("?")
    words = each.kind in ("causal", "advice") and BRACES.sub("", each.text).strip(" .")
    faults = faults_of(each, CheckContext(diagnosis, index)) if words else []
    return Assertion(
        "model",
        "question" if asks else each.kind,
        text,
        tuple(dict.fromkeys(ids)),
        figures_in(text),
        tuple(dict.fromkeys(ranks)),
        (each.cause or "").partition(":")[0],
        "guess" if guess else each.claim or "",
        each.part or "",
        tuple(slot[5:] for slot in slots if slot.startswith("open:")),
        figures_in(BRACES.sub(" ", each.text)),
        refused="; ".join(faults),
    )


def _of_cause(each: Statement, diagnosis: Diagnosis) -> str:
    if each.cause is None:
        return ""
    cause, _, mechanism = each.cause.partition(":")
    found = next((record for record in diagnosis.causes if record.cause == cause), None)
    title = cause_title(cause, mechanism or (found.mechanism if found else None) or None)
    ranks = f" on {rank_list(each.ranks)}" if each.ranks else ""
    part = f", in {PART_TITLES[each.part]}" if each.part else ""
    return f"{title}{ranks}{part}. "


def _filled(slot: str, index: EvidenceIndex) -> str:
    kind, _, value = slot.partition(":")
    if kind in index.evidence:
        return written(index.evidence[kind].value, index.evidence[kind].unit)
    if kind in index.advice:
        item = index.advice[kind]
        return {"how": item.how, "risk": item.risk, "verify": item.verify}.get(value, item.optimization)
    return f"{kind} {value}" if kind in ("rank", "step") else value or kind


def _of_prose(text: str, index: EvidenceIndex) -> Iterator[Assertion]:
    """Prose of a model: a sentence that names a cause asserts it, since its polarity cannot be read."""
    for each, source in _sourced(text):
        named = [subject.causes[0] for subject in subjects_of(normalised(each.text)) if subject.causes]
        asserts = named[0] if named and each.figures else ""
        yield Assertion(
            "model",
            PROSE,
            each.text,
            each.ids,
            each.figures,
            tuple(dict.fromkeys(each.ranks)),
            asserts,
            "present" if asserts else "",
            uncited=() if each.ids else tuple(figure for figure in each.figures if figure.dimension != "count"),
            misquoted=_misquoted(source, index),
        )


def of_template(text: str, diagnosis: Diagnosis, index: EvidenceIndex) -> tuple[Assertion, ...]:
    """An answer from templates: it blames a found cause that it names, or whose cost it cites.

    "Found on it: ..." is of the rank that was named before, and rests on the figures of the next statement.
    """
    found = list(_of_template(text, diagnosis, index))
    for place, each in enumerate(found):
        if not each.cause:
            continue
        if not each.ranks and re.search(r"\bit\b", each.text):
            named = (before.ranks for before in reversed(found[:place]) if before.ranks)
            each = replace(each, ranks=next(named, ())[:1])
        if not each.ids and place + 1 < len(found):
            each = replace(each, ids=found[place + 1].ids)
        found[place] = each
    return tuple(found)


def _of_template(text: str, diagnosis: Diagnosis, index: EvidenceIndex) -> Iterator[Assertion]:
    open_checks = [check for check in diagnosis.checks if check.status == "cannot_answer"]
    for each, source in _sourced(text):
        opens = tuple(check.analyzer for check in open_checks if _says(each, check))
        cause = "" if opens else _blamed(each, diagnosis, index)
        kind = "unknown" if opens else "causal" if cause else "advice" if _advises(each) else "measured"
        yield Assertion(
            "template",
            kind,
            each.text,
            each.ids,
            each.figures,
            tuple(dict.fromkeys(each.ranks)),
            cause,
            "present" if cause else "",
            opens=opens,
            misquoted=_misquoted(source, index),
        )


def _sourced(text: str) -> list[tuple[Stated, str]]:
    """Statements, each with the line of the text that it comes from, citations included."""
    lines = text.splitlines()
    of_line = {line: {*cited_ids(line)} for line in lines}
    cited = [(each, {*each.ids}) for each in stated(text)]
    return [(each, next((line for line in lines if ids and ids <= of_line[line]), "")) for each, ids in cited]


def _misquoted(source: str, index: EvidenceIndex) -> tuple[str, ...]:
    pairs = ((figure, name, index.evidence.get(name)) for figure, name in cited_figures(source))
    return tuple(f"{figure} [{name}]" for figure, name, record in pairs if record and not is_figure_of(figure, record))


def _says(each: Stated, check: CheckRecord) -> bool:
    """Whether the statement gives the reason or the need of an open check."""
    text = each.text.lower()
    return any(part and part.rstrip(".").lower() in text for part in (check.reason, check.needs))


def _advises(each: Stated) -> bool:
    return any(name.startswith("A") for name in each.ids)


def _blamed(each: Stated, diagnosis: Diagnosis, index: EvidenceIndex) -> str:
    """The found cause that stands first in the statement, else the one whose cost it cites."""
    text, found = each.text.lower(), list[tuple[int, str]]()
    for record in diagnosis.causes:
        place = text.find(cause_title(record.cause, record.mechanism).lower())
        found += [(place, record.cause)] if place >= 0 else []
    if found:
        return min(found)[1]
    cited = (index.evidence[name] for name in each.ids if name in index.evidence)
    return next((str(record.arguments["cause"]) for record in cited if record.metric == "cause_impact_ms"), "")
