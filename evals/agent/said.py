"""What an answer says, for the scorers: its text with the figures filled in, its claims, the figures it cites."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hermes_agent.evidence.citations import CITATION, cited_ids, written
from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.llm.structured import parse_form
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.display import PART_TITLES, cause_title, rank_list
from hermes_agent.questions.question import normalised, subjects_of
from hermes_agent.statements.context import found_cause
from hermes_agent.statements.record import Statement, Statements
from hermes_agent.statements.slots import BRACES
from tools.errors import ModelError

BLAME = re.compile(r"\b(?:because|causes?|culprit|bottleneck|due to|blame|problem|saturated|broken)\b", re.IGNORECASE)
ABSTAINS = re.compile(
    r"could not|cannot|can not|can't|not recorded|no [\w ]{1,40} (?:is|are|was|were) recorded|not assessable|not known"
    r"|has no|have no|is no\b|are no\b|there (?:is|are) no|not among|not measured|not traced|needs? ",
    re.IGNORECASE,
)
FIGURE = re.compile(r"(?<![\w.])\d[\d.,]*(?: ?(?:ns|us|ms|s|%|x|MiB|GiB|GB/s|FLOP/s))\b|(?<![\w.])\d[\d.,]* ?%")


@dataclass(frozen=True)
class Claimed:
    """A cause that an answer blames (``present``), clears (``absent``), guesses or leaves open (``unknown``)."""

    cause: str
    claim: str


@dataclass(frozen=True)
class Said:
    """An answer. ``uncited`` are figures of free text that no id bears out."""

    text: str
    claims: tuple[Claimed, ...] = ()
    abstains: bool = False
    uncited: tuple[str, ...] = ()

    @property
    def ids(self) -> list[str]:
        """The ids that it cites."""
        return cited_ids(self.text)


REFUSES = re.compile(r"can(?:'|no)t help|not able to help|sorry", re.IGNORECASE)


def own_text(answer: str, diagnosis: Diagnosis, index: EvidenceIndex) -> Said:
    """A model's own answer before any check: its statements with the slots filled in, else its prose."""
    try:
        statements = parse_form(answer, Statements).statements
    except ModelError:
        return of_prose(answer)
    text = "\n".join(_sentence(each, diagnosis, index) for each in statements)
    unknown = any(each.kind == "unknown" and not each.text.rstrip().endswith("?") for each in statements)
    free = " ".join(BRACES.sub(" ", each.text) for each in statements)
    return Said(text, claims_of(statements), unknown, tuple(FIGURE.findall(free)))


def claims_of(statements: Sequence[Statement], guesses: Sequence[Statement] = ()) -> tuple[Claimed, ...]:
    """What the statements claim of causes; those among ``guesses`` are shown as guesses."""
    return tuple(_claims(statements, guesses))


def _claims(statements: Sequence[Statement], guesses: Sequence[Statement]) -> Iterator[Claimed]:
    for each in statements:
        cause = (each.cause or "").partition(":")[0]
        if cause and each.kind == "causal" and each.claim in ("present", "absent", "guess"):
            yield Claimed(cause, "guess" if each in guesses else each.claim)
        elif cause and each.kind == "unknown" and not each.text.rstrip().endswith("?"):
            yield Claimed(cause, "unknown")


def of_prose(text: str) -> Said:
    """Prose of a model: a sentence that blames names causes as present."""
    blaming = [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if BLAME.search(sentence)]
    named = [subject for sentence in blaming for subject in subjects_of(normalised(sentence))]
    claims = tuple(Claimed(cause, "present") for subject in named for cause in subject.causes[:1])
    bare = CITATION.sub(" ", text)
    return Said(text, claims, bool(ABSTAINS.search(text)) and not REFUSES.search(text), tuple(FIGURE.findall(bare)))


def of_template(text: str, diagnosis: Diagnosis, index: EvidenceIndex) -> Said:
    """An answer from templates: a cause whose cost it cites is blamed."""
    cited = (index.evidence[name] for name in cited_ids(text) if name in index.evidence)
    named = dict.fromkeys(str(each.arguments["cause"]) for each in cited if each.metric == "cause_impact_ms")
    claims = tuple(Claimed(name, "present") for name in named if found_cause(diagnosis, name) is not None)
    return Said(text, claims, bool(ABSTAINS.search(text)))


def _sentence(statement: Statement, diagnosis: Diagnosis, index: EvidenceIndex) -> str:
    def filled(match: re.Match[str]) -> str:
        kind, _, value = match[1].strip().partition(":")
        if kind in index.evidence:
            record = index.evidence[kind]
            return f"{written(record.value, record.unit)} [{kind}]"
        if kind in ("rank", "step"):
            return f"{kind} {value}"
        return f"[{kind}]" if re.fullmatch(r"[EAC]\d+", kind) else value or kind

    text = BRACES.sub(filled, statement.text)
    cites = "".join(f" [{name}]" for name in statement.evidence)
    if statement.cause is None:
        return f"{text}{cites}"
    cause, _, mechanism = statement.cause.partition(":")
    found = found_cause(diagnosis, statement.cause)
    title = cause_title(cause, (found.mechanism if found else mechanism) or None)
    ranks = f" on {rank_list(statement.ranks)}" if statement.ranks else ""
    part = f", in {PART_TITLES[statement.part]}" if statement.part else ""
    return f"{statement.claim or statement.kind}: {title}{ranks}{part}. {text}{cites}"
