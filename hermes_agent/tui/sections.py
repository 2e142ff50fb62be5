"""A diagnosis as messages: plain records of titles and paragraphs, which the conversation draws."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes_agent.evidence.recalled import similar_cases_title
from hermes_agent.model.diagnosis import AdviceRecord, CauseRecord, Diagnosis, SourceRecord
from hermes_agent.model.display import cause_title, plain, rank_list
from hermes_agent.report.text import EFFORTS

NUMBER = re.compile(r"\d+")
CASES_SHOWN = 3
STATUSES = {"found": "found something", "clean": "clean", "cannot_answer": "cannot answer"}

Paragraphs = tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """One message: a title and sentences with citations. ``kind`` chooses its colour."""

    title: str
    paragraphs: Paragraphs
    kind: str = "plain"


def headline(diagnosis: Diagnosis) -> Section:
    """The verdict and the sentences that answer the question."""
    said = tuple(diagnosis.answer) or (diagnosis.headline,)
    if diagnosis.answer_by == "model":
        said = (*said, f"Written by {diagnosis.answer_model or 'the model'}, checked against the evidence.")
    return Section(diagnosis.verdict.capitalize(), said, diagnosis.verdict)


def cause(place: int, record: CauseRecord, diagnosis: Diagnosis) -> Section:
    """One ranked cause with what speaks for and against it."""
    where = "" if set(record.ranks) == set(diagnosis.run.ranks) else f", {rank_list(record.ranks)}"
    facts = (
        f"{record.impact_ms_per_step:.1f} ms, {record.impact_pct:.1f} % of the step{where}; "
        f"confidence {record.confidence:.2f}, by {record.method.replace('_', ' ')}."
    )
    lines = [facts, record.claim, *record.details]
    lines += [f"Symptom: {symptom}" for symptom in record.symptoms]
    lines += [f"Against: {contrary}" for contrary in record.against]
    if record.disproved_by:
        lines.append(f"What would disprove it: {record.disproved_by}.")
    if record.evidence:
        lines.append(f"Evidence: {_cited(record.evidence)}")
    return Section(f"{place}. {cause_title(record.cause, record.mechanism)}", tuple(lines), "cause")


def causes(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """All ranked causes."""
    return tuple(cause(place, record, diagnosis) for place, record in enumerate(diagnosis.causes, start=1))


def advice(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """What to change, in one message; empty when there is nothing to advise."""
    if not diagnosis.advice:
        return ()
    lines = [line for item in diagnosis.advice for line in _advice(item)]
    return (Section("What to change, most gain for the effort first", tuple(lines), "advice"),)


def _advice(item: AdviceRecord) -> list[str]:
    title = f"[{item.id}] {item.optimization} (for {cause_title(item.for_, item.mechanism)}; {EFFORTS[item.effort]})"
    lines = [title, f"  {item.how}"]
    if item.text:
        lines.append(f"  {item.text}")
    if item.cases:
        lines.append(f"  Like {_cited(item.cases)}")
    return lines


def comparison(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """What changed against the baseline, if there is one."""
    record = diagnosis.comparison
    if record is None:
        return ()
    changes = tuple(f"- {change}" for change in record.changes)
    return (Section("Against the baseline", (record.headline, *changes)),)


def cases(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """The most similar cases, best first, or why none is near."""
    if not diagnosis.cases:
        return (Section("Similar cases", (diagnosis.recall_note,)),) if diagnosis.recall_note else ()
    best = sorted(diagnosis.cases, key=lambda case: -case.similarity)[:CASES_SHOWN]
    lines = tuple(f"[{case.id}] {case.title} (similarity {case.similarity:.2f})" for case in best)
    title = similar_cases_title(best)
    return (Section(f"{title} (they suggest; they are no evidence for this run)", lines),)


def checks(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """How many checks found something, are clean and cannot answer, with the names of the last; details by /checks."""
    if not diagnosis.checks:
        return ()
    by_status = {status: [each for each in diagnosis.checks if each.status == status] for status in STATUSES}
    counted = ", ".join(f"{len(those)} {STATUSES[status]}" for status, those in by_status.items())
    unanswered = _by_topic([each.analyzer for each in by_status["cannot_answer"]])
    named = (f"Cannot answer: {unanswered}.",) if unanswered else ()
    return (Section(f"Checks: {counted}", (*named, "/checks says what each came to, and what it would need.")),)


def _by_topic(names: list[str]) -> str:
    """``cpu (environment, garbage collection), memory (peak)``."""
    topics: dict[str, list[str]] = {}
    for name in names:
        topic, _, question = name.partition(".")
        topics.setdefault(topic, []).append(plain(question or name))
    return ", ".join(f"{plain(topic)} ({', '.join(questions)})" for topic, questions in topics.items())


def notes(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Assumptions and exclusions a reader should know; what holds for several files is said once."""
    told: dict[tuple[str, bool], tuple[str, list[str]]] = {}  # by the words: ranks and sizes differ between files
    for line in (*diagnosis.notes, *(_partial(source) for source in diagnosis.run.sources if source.note)):
        path, text = _without_path(line, diagnosis)
        words = NUMBER.sub("#", text.rstrip("."))
        _, files = told.setdefault((words if path else text.rstrip("."), bool(path)), (text.rstrip("."), []))
        if path and path not in files:
            files.append(path)
    whole = [text for text, files in told.values() if not files]
    lines = [_note(text, files) for text, files in told.values() if not files or not _within(text, whole)]
    return (Section("To know", tuple(f"- {line}" for line in lines)),) if lines else ()


def _without_path(line: str, diagnosis: Diagnosis) -> tuple[str, str]:
    """The file that a note begins with, "" for none, and the rest of the note."""
    for source in diagnosis.run.sources:
        if line.startswith(source.path):
            return source.path.rsplit("/", 1)[-1], line.removeprefix(source.path).lstrip(": ")
    return "", line


def _within(text: str, whole: list[str]) -> bool:
    """Whether a note about a file stands inside one about the whole run."""
    return any(text in other for other in whole)


def _note(text: str, files: list[str]) -> str:
    if not files:
        return f"{text}."
    more = f" (and likewise in {len(files) - 1} more files)" if len(files) > 1 else ""
    return f"{files[0]}: {text}{more}."


def _partial(source: SourceRecord) -> str:
    return source.note if source.note.startswith(source.path) else f"{source.path}: {source.note}"


def _cited(identifiers: list[str]) -> str:
    return " ".join(f"[{identifier}]" for identifier in identifiers)
