"""A diagnosis as messages: plain records of titles and paragraphs, which the conversation draws."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.report.diagnosis import AdviceRecord, CauseRecord, Diagnosis, SourceRecord
from hermes_agent.report.recalled import similar_cases_title
from hermes_agent.report.text import EFFORTS
from hermes_agent.report.wording import cause_title, rank_list

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
        lines.append(f"Disproved if {record.disproved_by}")
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
    """Similar cases, or why none is near."""
    if not diagnosis.cases:
        return (Section("Similar cases", (diagnosis.recall_note,)),) if diagnosis.recall_note else ()
    lines = tuple(f"[{case.id}] {case.title} (similarity {case.similarity:.2f})" for case in diagnosis.cases)
    title = similar_cases_title(diagnosis.cases)
    return (Section(f"{title} (they suggest; they are no evidence for this run)", lines),)


def open_questions(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """What could not be answered and what would be needed; questions with the same answer stand together."""
    together: dict[tuple[str, str], list[str]] = {}
    for check in diagnosis.checks:
        if check.status == "cannot_answer":
            together.setdefault((check.reason.rstrip("."), check.needs.rstrip(".")), []).append(check.analyzer)
    lines = tuple(f"{', '.join(names)}: {reason}. Needs {needs}." for (reason, needs), names in together.items())
    return (Section("What cannot be answered from these sources", lines),) if lines else ()


def notes(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Assumptions and exclusions a reader should know, each once."""
    told = [_partial(source) for source in diagnosis.run.sources if source.note]
    lines = [line for line in told if not any(line in note for note in diagnosis.notes)]
    lines = list(dict.fromkeys([*lines, *diagnosis.notes]))
    return (Section("To know", tuple(f"- {line}" for line in lines)),) if lines else ()


def _partial(source: SourceRecord) -> str:
    return source.note if source.note.startswith(source.path) else f"{source.path}: {source.note}"


def _cited(identifiers: list[str]) -> str:
    return " ".join(f"[{identifier}]" for identifier in identifiers)
