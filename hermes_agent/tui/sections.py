"""A diagnosis as records that the chat draws: messages of titles and paragraphs, and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_agent.evidence.cases import similar_cases_title
from hermes_agent.model.diagnosis import BreakdownRow, CauseRecord, CheckRecord, Diagnosis
from hermes_agent.model.display import PART_TITLES, cause_heading, cause_title, counted, plain, rank_list
from tools.knowledge.taxonomy import EFFORTS

NUMBER = re.compile(r"\d+")
CASES_SHOWN = 3
STATUSES = {"found": "found something", "clean": "clean", "cannot_answer": "cannot answer"}


@dataclass(frozen=True)
class Section:
    """One message: a title and sentences with citations. ``kind`` chooses its colour."""

    title: str
    paragraphs: tuple[str, ...]
    kind: str = "plain"


def headline(diagnosis: Diagnosis) -> Section:
    """Return the verdict and the sentences that answer the question."""
    sentences = tuple(diagnosis.answer) or (diagnosis.headline,)
    if diagnosis.answer_by == "model":
        sentences += (f"Written by {diagnosis.answer_model or 'the model'}, checked against the evidence.",)
    return Section(diagnosis.verdict.capitalize(), sentences, diagnosis.verdict)


def causes(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Return all ranked causes, each with the evidence for and against it."""
    return tuple(_cause(place, record, diagnosis) for place, record in enumerate(diagnosis.causes, start=1))


def _cause(place: int, record: CauseRecord, diagnosis: Diagnosis) -> Section:
    where = "" if set(record.ranks) == set(diagnosis.run.ranks) else f", {rank_list(record.ranks)}"
    facts = (
        f"{record.impact_ms_per_step:.1f} ms, {record.impact_pct:.1f} % of the step{where}; "
        f"confidence {record.confidence:.2f}, by {record.method.replace('_', ' ')}."
    )
    lines = [facts, record.claim, *record.details]
    lines += [f"Symptom: {symptom}" for symptom in record.symptoms]
    lines += [f"Against: {contrary}" for contrary in record.against]
    lines += [f"Disproved by: {record.disproved_by}."] if record.disproved_by else []
    lines += [f"Evidence: {_cited(record.evidence)}"] if record.evidence else []
    return Section(f"{place}. {cause_heading(record.cause, record.mechanism)}", tuple(lines), "cause")


def advice(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Return what to change, in one message; empty when there is no advice."""
    lines: list[str] = []
    for item in diagnosis.advice:
        target = f"for {cause_title(item.for_, item.mechanism)}; {EFFORTS[item.effort]}"
        lines += [f"[{item.id}] {item.optimization} ({target})", f"  {item.how}"]
        lines += [f"  {item.text}"] if item.text else []
        lines += [f"  Like {_cited(item.cases)}"] if item.cases else []
    return (Section("What to change", tuple(lines), "advice"),) if lines else ()


def comparison(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Return the changes against the baseline, if there is one."""
    record = diagnosis.comparison
    if record is None:
        return ()
    return (Section("Against the baseline", (record.headline, *(f"- {change}" for change in record.changes))),)


def cases(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Return the most similar cases, best first, or why none is close."""
    if not diagnosis.cases:
        return (Section("Similar cases", (diagnosis.recall_note,)),) if diagnosis.recall_note else ()
    best = sorted(diagnosis.cases, key=lambda case: -case.similarity)[:CASES_SHOWN]
    lines = tuple(f"[{case.id}] {case.title} (similarity {case.similarity:.2f})" for case in best)
    return (Section(f"{similar_cases_title(best)} (suggestions, not evidence for this run)", lines),)


def checks(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Return the number of checks per outcome, with the names of those that cannot answer; details are in /checks."""
    if not diagnosis.checks:
        return ()
    by_status = {status: [each.analyzer for each in diagnosis.checks if each.status == status] for status in STATUSES}
    counted = ", ".join(f"{len(those)} {STATUSES[status]}" for status, those in by_status.items())
    topics: dict[str, list[str]] = {}
    for name in by_status["cannot_answer"]:
        topic, _, question = name.partition(".")
        topics.setdefault(topic, []).append(plain(question or name))
    listed = ", ".join(f"{plain(topic)} ({', '.join(questions)})" for topic, questions in topics.items())
    named = (f"Cannot answer: {listed}.",) if listed else ()
    return (Section(f"Checks: {counted}", (*named, "/checks lists the results and what is missing.")),)


def notes(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Return assumptions and exclusions; a note on several files stands once, numbers in it aside."""
    partial = [source for source in diagnosis.run.sources if source.note]
    named = [each.note if each.note.startswith(each.path) else f"{each.path}: {each.note}" for each in partial]
    files_of: dict[tuple[str, bool], tuple[str, list[str]]] = {}  # by the words: ranks and sizes differ between files
    for line in (*diagnosis.notes, *named):
        file, text = _without_path(line.rstrip("."), diagnosis)
        _, files = files_of.setdefault((NUMBER.sub("#", text) if file else text, bool(file)), (text, []))
        if file and file not in files:
            files.append(file)
    whole = [text for text, files in files_of.values() if not files]
    lines = [
        _note(text, files) for text, files in files_of.values() if not files or not any(text in each for each in whole)
    ]
    return (Section("Notes", tuple(f"- {line}" for line in lines)),) if lines else ()


def _without_path(line: str, diagnosis: Diagnosis) -> tuple[str, str]:
    """The file that a note starts with, "" for none, and the rest of the note."""
    for source in diagnosis.run.sources:
        if line.startswith(source.path):
            return source.path.rsplit("/", 1)[-1], line.removeprefix(source.path).lstrip(": ")
    return "", line


def _note(text: str, files: list[str]) -> str:
    more = f" (and {counted(len(files) - 1, 'more file')})" if len(files) > 1 else ""
    return f"{files[0]}: {text}{more}." if files else f"{text}."


def _cited(identifiers: list[str]) -> str:
    return " ".join(f"[{identifier}]" for identifier in identifiers)


DETAILS = (comparison, causes, advice, cases, checks, notes)  # after the headline, in this order


@dataclass(frozen=True)
class TableView:
    """A table. ``identifiers`` holds the id that Enter opens on each row; empty when rows open nothing."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    identifiers: tuple[str, ...] = ()


def evidence_table(diagnosis: Diagnosis) -> TableView:
    """Return every figure cited."""
    rows = tuple(
        (each.id, each.metric, f"{each.value:.6g}", each.unit, _arguments(each.arguments), each.source.selector)
        for each in diagnosis.evidence
    )
    columns = ("id", "metric", "value", "unit", "arguments", "from")
    return TableView("Figures cited (Enter opens)", columns, rows, tuple(each.id for each in diagnosis.evidence))


def check_table(diagnosis: Diagnosis) -> TableView:
    """Return the result of every check: those that found something, then those that cannot answer, then the clean."""
    order = ("found", "cannot_answer", "clean")
    check_table = sorted(diagnosis.checks, key=lambda each: order.index(each.status))
    rows = tuple((each.analyzer, plain(each.status), _result(each)) for each in check_table)
    return TableView("Checks (Enter opens)", ("check", "outcome", "result"), rows, tuple(row[0] for row in rows))


def _result(check: CheckRecord) -> str:
    if check.status == "cannot_answer":
        return f"{check.reason.rstrip('.')}. Needs {check.needs.rstrip('.')}."
    return " ".join(check.text)


def rank_table(diagnosis: Diagnosis) -> TableView:
    """Return the mean over steps for each rank, in ms."""
    rows = [((row.rank,), row) for row in diagnosis.breakdown if row.step is None]
    return _breakdown("Time breakdown per rank, ms, mean over steps", ("rank",), rows)


def step_table(diagnosis: Diagnosis) -> TableView:
    """Return each step on the rank that took longest for it, in ms."""
    by_step: dict[int, BreakdownRow] = {}
    for row in diagnosis.breakdown:
        if row.step is not None and (row.step not in by_step or row.wall_ms > by_step[row.step].wall_ms):
            by_step[row.step] = row
    rows = [((step, row.rank), row) for step, row in sorted(by_step.items())]
    return _breakdown("Time breakdown per step, ms, on its slowest rank", ("step", "slowest rank"), rows)


def _breakdown(title: str, names: tuple[str, ...], rows: Sequence[tuple[tuple[int, ...], BreakdownRow]]) -> TableView:
    parts = ("wall", *PART_TITLES, "overlapped_communication")
    cells = [(*map(str, numbers), *(f"{getattr(row, f'{part}_ms'):.2f}" for part in parts)) for numbers, row in rows]
    return TableView(title, (*names, "wall", *PART_TITLES.values(), "overlapped communication"), tuple(cells))


def _arguments(arguments: dict[str, str | int | float | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in arguments.items() if value is not None)
