"""What a sentence claims in words, held against the diagnosis: figures are the verifier's, these are the rest.

Patterns cannot read; they catch the common ways in which a model calls healthy what nobody could check, blames what
was not found, or writes a figure without digits. Whoever changes them, changes the table of examples in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hermes_agent.evidence.numbers import CITATION
from hermes_agent.evidence.verifier import CODE, Grounds, cited_ids, sentences, verify
from hermes_agent.model.diagnosis import Diagnosis, EvidenceRecord
from hermes_agent.questions.coverage import CHECKS_OF_MECHANISM, checks_for
from hermes_agent.questions.question import normalised
from hermes_agent.questions.subjects import Subject, subject_of
from hermes_agent.writing.amounts import amount_in_words
from hermes_agent.writing.attempt import Fault
from hermes_agent.writing.binding import Told, unbound
from hermes_agent.writing.known_words import told_of, told_with
from hermes_agent.writing.precedents import overstretched
from hermes_agent.writing.proper_names import unknown_names

MAX_CHARS = 8_000

# All patterns below run over normalised words: lower case, no punctuation, single blanks.
CLEAN = re.compile(
    r"\b(no|without|any) (\w+ ){0,2}(signs?|evidence|indications?|problems?|issues?|bottlenecks?|trouble)\b"
    r"|\bnot (a|an|the|to) (\w+ )?(problems?|issues?|causes?|bottlenecks?|reason|culprit|blame)\b"
    r"|\b(is|are|was|were|be|looks?|seems?|appears?|works?|runs?|performs?|behaves?)( to be)?"
    r"( perfectly| all| completely| quite| also| otherwise| both)* "
    r"(fine|healthy|ok|okay|good|well|normal|normally|clean|innocent|not slow|as expected)\b"
    r"|\bruled? out\b|\bnothing( is)? wrong\b|\bexcluded\b|\bdoes not (contribute|matter|cost|play)\b|\bfree of\b"
)
OPEN = re.compile(
    r"\b(can ?not|could not|couldnt|cant) be (\w+ )?(ruled|excluded|checked|told|said|answered|measured|determined|"
    r"judged|known|seen|verified|assessed)\b"
    r"|\bnot (be )?(been )?(ruled out|checked|excluded|answered|looked at|recorded)\b|\b(is|are|remains?) open\b"
    r"|\bunknown\b|\bwhether\b|\b(can ?not|could not|couldnt|cant) (say|tell|answer|judge|know|rule)\b|\bunclear\b"
)
BLAME = re.compile(
    r"\bbecause of\b(?! (it|that|this)\b)|\bcaused by\b|\bdue to\b|\bbottlenecks?\b|\bculprit\b"
    r"|\bto blame\b|\bsuffers from\b"
    r"|\b(slowed|limited|bound|held up|dominated) (down )?by\b"
    r"|\b(the|main|first|root|real|likeliest|biggest|top) (cause|reason|problem)\b|\b(is|are) (too |very |so )?slow\b"
    r"|\b(mostly|mainly|largely|chiefly|primarily) (the|because|due|by)\b"
    r"|\b(is|are) (the |a )?stragglers?\b|\bmalfunction\w*|\b(faulty|broken|misconfigured|overloaded|congested)\b"
)
NEGATED = re.compile(r"\b(no|not|nor|never|neither|isnt|arent|without|unlikely)\b")
EVERYTHING = re.compile(
    r"\b(everything|all) (else|other|others|remaining)\b|\bnothing else\b|\beverything (is|looks|seems|works)\b"
    r"|\ball (the )?(checks|subsystems|components|parts) (are|look|pass|passed)\b"
)
WHOLE_RUN = re.compile(
    r"\b(the |this |your )?(run|training|job) (is|looks|seems|appears) (\w+ )?(healthy|fine|ok|okay|normal)\b"
    r"|\bnothing (needs|has) to be (fixed|changed)\b|\bnothing needs (fixing|to change)\b"
)
OF_RUN = re.compile(
    r"\b(ranks?|steps?) \d|\b(this|your) (run|training|job|trace|profile|step|model|loader|network|device|gpu|host)\b"
)
MARKUP = re.compile(r"!?\[[^\]\n]*\]\(|<[a-zA-Z/!]|^\s*\[[^\]]+\]:", re.MULTILINE)
URL = re.compile(r"\b(?:https?|ftp|file|data|javascript):\S+", re.IGNORECASE)
CLAUSE = re.compile(r"[,;:()]| and | or | but | nor ")


@dataclass(frozen=True)
class Bearings:
    """What claims are held against; ``urls`` are the addresses that may be named.

    ``told`` are texts about the run beyond the diagnosis (answers of tools), ``asked`` is the question.
    """

    diagnosis: Diagnosis
    grounds: Grounds
    evidence: Mapping[str, EvidenceRecord]
    urls: frozenset[str]
    told: tuple[str, ...] = ()
    asked: str = ""


def faults(text: str, bearings: Bearings, *, cite_all: bool) -> list[Fault]:
    """Everything in the text that must not reach a reader; empty when it may.

    With ``cite_all`` every sentence needs an id, unless it says that something is open; without it only those that
    blame or clear something or speak of this run.
    """
    found = [Fault(problem.sentence, problem.detail) for problem in verify(text, bearings.grounds)]
    if len(text) > MAX_CHARS:
        found.append(Fault(text[:80], f"the answer has more than {MAX_CHARS} characters; be brief"))
    known = told_of(bearings.diagnosis, bearings.evidence.values(), bearings.told)
    before = ""
    for sentence in sentences(text):
        words = told_with(cited_ids(sentence), known, bearings.grounds.quotes)
        told = Told(bearings.evidence, bearings.grounds, len(bearings.diagnosis.run.ranks), before)
        details = (
            *_claims(sentence, bearings, cite_all),
            *unbound(sentence, told),
            *_names(sentence, words, bearings.asked),
            *_markup(sentence, bearings.urls),
        )
        found += (Fault(sentence, detail) for detail in details)
        before = sentence
    return found


def _names(sentence: str, told: str, asked: str) -> Iterator[str]:
    prose = CITATION.sub("", URL.sub(" ", CODE.sub(" ", sentence)))
    if OPEN.search(normalised(prose)):
        told = f"{told}\n{asked}"
    if names := unknown_names(prose, told):
        yield f"nothing that was told of this run names {' or '.join(names[:3])}; leave it out"


def _claims(sentence: str, bearings: Bearings, cite_all: bool) -> Iterator[str]:
    diagnosis, grounds = bearings.diagnosis, bearings.grounds
    prose = CITATION.sub(" ", CODE.sub(" ", sentence))
    words = normalised(prose)
    if not words:
        return
    subjects = _subjects(prose)
    is_open = bool(OPEN.search(words))
    clears, blames = bool(CLEAN.search(words)), bool(BLAME.search(words)) and not NEGATED.search(words)
    quoted = normalised("\n".join(grounds.quotes.get(name, "") for name in cited_ids(sentence)))
    if amount := amount_in_words(words, quoted):
        yield f"{amount!r} is a figure in words: give the figure of an id in digits, or leave it out"
    if WHOLE_RUN.search(words) and not NEGATED.search(words) and diagnosis.verdict != "healthy":
        yield f"the verdict is {diagnosis.verdict}, not healthy"
    if wrong := overstretched(words, cited_ids(sentence)):
        yield wrong
    if is_open:
        return
    if clears:
        yield from _cleared(words, subjects, diagnosis)
    if blames and not clears:
        yield from _blamed(subjects, diagnosis)
    if not cited_ids(sentence) and (cite_all or OF_RUN.search(words) or (subjects and (clears or blames))):
        yield "the sentence has no id; end it with the ids it rests on, or leave it out"


def _cleared(words: str, subjects: list[Subject], diagnosis: Diagnosis) -> Iterator[str]:
    unanswered = [check.analyzer for check in diagnosis.checks if check.status == "cannot_answer"]
    if EVERYTHING.search(words) and unanswered:
        yield f"not everything could be checked: {', '.join(unanswered[:4])} could not be answered"
    answered = {check.analyzer for check in diagnosis.checks if check.status != "cannot_answer"}
    for subject in subjects:
        if guilty := [name for name in subject.causes if _listed(name, subject.mechanism, diagnosis)]:
            yield f"{subject.title} is called fine, but the diagnosis lists {', '.join(guilty)}"
        elif unknown := [name for name in subject.causes if not _looked_for(name, subject.mechanism, answered)]:
            yield f"{subject.title} is called fine, but {', '.join(unknown)} could not be checked in this run"


def _listed(cause: str, mechanism: str | None, diagnosis: Diagnosis) -> bool:
    """Whether the cause was found; one mechanism that has checks of its own only where it was found itself."""
    own_check = mechanism is not None and mechanism in CHECKS_OF_MECHANISM
    return any(
        record.cause == cause and (not own_check or record.mechanism == mechanism) for record in diagnosis.causes
    )


def _looked_for(cause: str, mechanism: str | None, answered: set[str]) -> bool:
    names = checks_for(cause, mechanism)
    return bool(names) and set(names) <= answered


def _blamed(subjects: list[Subject], diagnosis: Diagnosis) -> Iterator[str]:
    listed = {record.cause for record in diagnosis.causes}
    if subjects and not any(listed & set(subject.causes) for subject in subjects):
        titles = " and ".join(subject.title for subject in subjects)
        yield f"{titles} is blamed, but the diagnosis lists no such cause"


def _subjects(prose: str) -> list[Subject]:
    """What the clauses of a sentence speak of, each once."""
    found: list[Subject] = []
    for clause in CLAUSE.split(prose):
        subject = subject_of(normalised(clause))
        if subject is not None and subject not in found:
            found.append(subject)
    return found


def _markup(sentence: str, urls: frozenset[str]) -> Iterator[str]:
    prose = CODE.sub(" ", sentence)
    if MARKUP.search(prose):
        yield "links, images and HTML are not allowed; cite ids instead"
    for address in URL.findall(prose):
        if address.rstrip(".,;:)]") not in urls:
            yield f"{address[:80]} is not the address of a recalled case"
