"""Holds an answer against the evidence: every id must exist and every number must be what its evidence says.

Rules
- A sentence with a number cites at least one evidence, advice or case: ``[E3]``, ``[A1]``, ``[C2]``.
- Every number of the sentence equals a cited evidence's value after rounding, in a unit of the same kind, or stands
  literally in the text of the cited advice or case.
- ``rank 3`` and ``step 7`` must exist in the run, traced or recorded, and so must a host that is written as the
  run's hosts are; they need no citation.
- Code in back quotes is free of these rules, except for figures with a unit.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hermes_agent.evidence.hosts import Hosts
from hermes_agent.evidence.numbers import CITATION, KINDS, SPELLED, Figure, agrees, figures

Kind = Literal[
    "unknown_id", "uncited_number", "wrong_number", "unknown_rank", "unknown_step", "unknown_host", "spelled_number"
]

CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
BOUNDARY = re.compile(r"(?<=[.!?])(?P<cite>(?:\s*\[[EAC]\d[^\]]*\])*)\s+(?=[\"'(]?[A-Z`*\[]|$)|\n+")
PLACES = re.compile(
    r"\b(?P<what>ranks?|steps?)\s+(?P<list>\d+(?:\s*(?:,|and|to|or|-|–|:)\s*\d+)*)(?!\.?\d)", re.IGNORECASE
)
LIST_MARK = re.compile(r"^[ \t]*(?:[-*]|\d+[.)]|#+)[ \t]+", re.MULTILINE)


@dataclass(frozen=True)
class Evidence:
    """What the verifier needs to know of one piece of evidence."""

    value: float
    unit: str


@dataclass(frozen=True)
class Grounds:
    """Everything an answer may rest on."""

    evidence: Mapping[str, Evidence]
    quotes: Mapping[str, str] = field(default_factory=dict)  # advice and cases: text by id
    ranks: frozenset[int] = frozenset()
    steps: Container[int] = frozenset()
    hosts: Hosts = field(default_factory=Hosts)


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one sentence."""

    kind: Kind
    sentence: str
    detail: str


def sentences(text: str) -> list[str]:
    """The text cut into sentences; a citation behind the full stop belongs to the sentence before it."""
    masked = text
    for opaque in (CODE, LIST_MARK):
        masked = opaque.sub(lambda match: "\x00" * len(match.group(0)), masked)
    result, begin = [], 0
    for match in BOUNDARY.finditer(masked):
        end = match.start() + len(match["cite"] or "")
        result.append(text[begin:end])
        begin = match.end()
    result.append(text[begin:])
    return [sentence.strip() for sentence in result if sentence.strip()]


def verify(text: str, grounds: Grounds) -> list[Problem]:
    """Everything in the text that the grounds do not bear out; empty when all is well."""
    problems: list[Problem] = []
    for sentence in sentences(text):
        problems.extend(_verify_sentence(sentence, grounds))
    return problems


def cited_ids(sentence: str) -> list[str]:
    """The ids cited in a sentence, in order."""
    return [part.strip() for match in CITATION.finditer(sentence) for part in re.split("[,;]", match.group(1))]


def _verify_sentence(sentence: str, grounds: Grounds) -> list[Problem]:
    cited = cited_ids(sentence)
    problems = [
        Problem("unknown_id", sentence, f"[{name}] does not exist")
        for name in cited
        if name not in grounds.evidence and name not in grounds.quotes
    ]
    prose = LIST_MARK.sub("", CITATION.sub(" ", CODE.sub(_only_measures, sentence)))
    prose, unknown_hosts = grounds.hosts.taken_from(prose)
    problems.extend(Problem("unknown_host", sentence, f"the run has no host {name}") for name in unknown_hosts)
    prose, place_problems = _check_places(sentence, prose, grounds)
    problems.extend(place_problems)
    if spelled := SPELLED.search(prose):
        problems.append(Problem("spelled_number", sentence, f"{spelled.group(0)!r} is a figure in words: write digits"))
    for figure in figures(prose):
        if problem := _check_figure(figure, sentence, cited, grounds):
            problems.append(problem)
    return problems


def _only_measures(code: re.Match[str]) -> str:
    """Of a code span, only times and shares; sizes and factors are parts of names, as in ``A100 80GB``."""
    text = code.group(0)
    alone = [figure for figure in figures(text) if text[figure.start - 1] not in "-_/"]
    kept = [figure.text for figure in alone if figure.unit != "s" and _kind(figure) in ("time", "share")]
    return " ".join(kept) or " "


def _kind(figure: Figure) -> str:
    return KINDS.get(figure.unit, ("", 0.0))[0]


def _check_places(sentence: str, prose: str, grounds: Grounds) -> tuple[str, list[Problem]]:
    problems: list[Problem] = []
    for match in PLACES.finditer(prose):
        of_rank = match["what"].lower().startswith("rank")
        known: Container[int] = grounds.ranks if of_rank else grounds.steps
        for number in re.findall(r"\d+", match["list"]):
            if int(number) not in known:
                kind: Kind = "unknown_rank" if of_rank else "unknown_step"
                problems.append(Problem(kind, sentence, f"the run has no {'rank' if of_rank else 'step'} {number}"))
    return PLACES.sub(" ", prose), problems


def _check_figure(figure: Figure, sentence: str, cited: list[str], grounds: Grounds) -> Problem | None:
    if not cited:
        return Problem("uncited_number", sentence, f"{figure.text!r} has no citation")
    for name in cited:
        evidence = grounds.evidence.get(name)
        if evidence is not None and agrees(figure, evidence.value, evidence.unit):
            return None
        quote = grounds.quotes.get(name)
        if quote is not None and any(
            other.value == figure.value and (other.unit == figure.unit or not figure.unit) for other in figures(quote)
        ):
            return None
    known = ", ".join(
        f"{name} is {grounds.evidence[name].value:.6g} {grounds.evidence[name].unit}"
        for name in cited
        if name in grounds.evidence
    )
    return Problem("wrong_number", sentence, f"{figure.text!r} is not what is cited ({known or 'no figure is cited'})")
