"""A diagnosis as records that the chat draws: messages of titles and paragraphs, and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_agent.model.display import (
    PART_TITLES,
    cause_heading,
    cause_title,
    counted,
    plain,
    rank_list,
    similar_cases_title,
)
from hermes_agent.report.sections import cause_facts, cause_lines
from tools.knowledge.taxonomy import EFFORTS

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import BreakdownRow, CauseRecord, Diagnosis, HypothesisRecord
    from hermes_agent.model.run_record import SourceRecord
    from hermes_agent.sessions.store import SessionRow

NUMBER = re.compile(r"\d+")
CASES_SHOWN = 3
STATUSES = {"found": "found something", "cannot_answer": "cannot answer", "clean": "clean"}


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
    lines = [f"{cause_facts(record, diagnosis)}.", record.claim, *cause_lines(record)]
    lines += [f"Evidence: {_cited(record.evidence)}"] if record.evidence else []
    return Section(f"{place}. {cause_heading(record.cause, record.mechanism)}", tuple(lines), "cause")


def hypothesis(record: HypothesisRecord) -> Section:
    """Return one hypothesis: its status, the test that decided or would, the evidence for and against it."""
    where = f", {rank_list(record.ranks)}" if record.ranks else ""
    by = ", proposed by the model" if record.proposed_by == "model" else ""
    lines = [f"{record.status.capitalize()}{where}{by}."]
    lines += [f"{record.judged_by.rstrip('.')}."] if record.judged_by else []
    lines += [f"Next test: {record.next_test.rstrip('.')}."] if record.next_test else []
    lines += [f"For: {_cited(record.evidence)}"] if record.evidence else []
    lines += [f"Against: {_cited(record.evidence_against)}"] if record.evidence_against else []
    return Section(f"{record.id}. {cause_heading(record.cause, record.mechanism)}", tuple(lines), "cause")


def hypotheses(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Return every hypothesis that was considered."""
    return tuple(map(hypothesis, diagnosis.hypotheses))


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
    outcomes = [each.status for each in diagnosis.checks]
    numbers = ", ".join(f"{outcomes.count(each)} {STATUSES[each]}" for each in ("found", "clean", "cannot_answer"))
    topics: dict[str, list[str]] = {}
    for name in (each.analyzer for each in diagnosis.checks if each.status == "cannot_answer"):
        topic, _, question = name.partition(".")
        topics.setdefault(topic, []).append(plain(question or name))
    listed = ", ".join(f"{plain(topic)} ({', '.join(questions)})" for topic, questions in topics.items())
    named = (f"Cannot answer: {listed}.",) if listed else ()
    return (Section(f"Checks: {numbers}", (*named, "/checks lists the results and what is missing.")),)


def notes(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Return assumptions and exclusions; a note on several files is shown once, whatever its numbers."""
    split = [_without_path(line.rstrip("."), diagnosis) for line in diagnosis.notes]
    said = set(split)
    for source in diagnosis.run.sources:
        file, text = _file_name(source), source.note.removeprefix(source.path).lstrip(": ").rstrip(".")
        if text and not said.issuperset((file, part) for part in text.split("; ")):
            split.append((file, text))
    whole = dict.fromkeys(text for file, text in split if not file)
    on_files: dict[str, tuple[str, dict[str, None]]] = {}  # by the words: ranks and sizes differ between files
    for file, text in split:
        if file and not any(text in each for each in whole):
            on_files.setdefault(NUMBER.sub("#", text), (text, {}))[1][file] = None
    lines = [*(f"- {text}." for text in whole), *(_note(text, list(files)) for text, files in on_files.values())]
    return (Section("Notes", tuple(lines)),) if lines else ()


def _without_path(line: str, diagnosis: Diagnosis) -> tuple[str, str]:
    """The file that a note starts with, "" for none, and the rest of the note."""
    for source in diagnosis.run.sources:
        for name in (source.path, f"{_file_name(source)}:"):
            if line.startswith(name):
                return _file_name(source), line.removeprefix(name).lstrip(": ")
    return "", line


def _file_name(source: SourceRecord) -> str:
    return source.path.rsplit("/", 1)[-1]


def _note(text: str, files: list[str]) -> str:
    more = f" (and {counted(len(files) - 1, 'more file')})" if len(files) > 1 else ""
    return f"- {files[0]}: {text}{more}."


def _cited(identifiers: list[str]) -> str:
    return " ".join(f"[{identifier}]" for identifier in identifiers)


DETAILS = (comparison, causes, advice, cases, checks, notes)  # after the headline, in this order


@dataclass(frozen=True)
class TableView:
    """A table. ``identifiers`` holds the id that Enter opens on each row; empty when rows open nothing.

    ``wrap``: its texts are shown whole, in several lines.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    identifiers: tuple[str, ...] = ()
    wrap: bool = False


def evidence_table(diagnosis: Diagnosis) -> TableView:
    """Return every figure cited."""
    rows = []
    for each in diagnosis.evidence:
        arguments = ", ".join(f"{name}={value}" for name, value in each.arguments.items() if value is not None)
        rows.append((each.id, each.metric, f"{each.value:.6g}", each.unit, arguments, each.source.selector))
    columns = ("id", "metric", "value", "unit", "arguments", "from")
    return TableView("Figures cited (Enter opens)", columns, tuple(rows), tuple(row[0] for row in rows), wrap=True)


def check_table(diagnosis: Diagnosis) -> TableView:
    """Return the result of every check: those that found something, then those that cannot answer, then the clean."""
    rows = []
    for each in sorted(diagnosis.checks, key=lambda each: tuple(STATUSES).index(each.status)):
        missing = f"{each.reason.rstrip('.')}. Needs {each.needs.rstrip('.')}."
        result = missing if each.status == "cannot_answer" else " ".join(each.text)
        rows.append((each.analyzer, plain(each.status), result))
    columns = ("check", "outcome", "result")
    return TableView("Checks (Enter opens)", columns, tuple(rows), tuple(row[0] for row in rows), wrap=True)


def rank_table(diagnosis: Diagnosis) -> TableView:
    """Return the mean over steps for each rank, in ms."""
    rows = [((row.rank,), row) for row in diagnosis.breakdown if row.step is None]
    return _breakdown("Time breakdown per rank, ms, mean over steps", ("rank",), rows)


def step_table(diagnosis: Diagnosis) -> TableView:
    """Return each step on the rank that took longest for it, in ms."""
    slowest: dict[int, BreakdownRow] = {}
    for row in sorted(diagnosis.breakdown, key=lambda row: -row.wall_ms):
        if row.step is not None:
            slowest.setdefault(row.step, row)
    rows = [((step, row.rank), row) for step, row in sorted(slowest.items())]
    return _breakdown("Time breakdown per step, ms, on its slowest rank", ("step", "slowest rank"), rows)


def _breakdown(title: str, names: tuple[str, ...], rows: Sequence[tuple[tuple[int, ...], BreakdownRow]]) -> TableView:
    parts = ("wall", *PART_TITLES, "overlapped_communication")
    cells = [(*map(str, numbers), *(f"{getattr(row, f'{part}_ms'):.2f}" for part in parts)) for numbers, row in rows]
    return TableView(title, (*names, "wall", *PART_TITLES.values(), "overlapped communication"), tuple(cells))


def session_table(rows: Sequence[SessionRow]) -> TableView:
    """Return the kept sessions, the one used last first."""
    cells = [
        (row.id, row.title, f"{row.last_used.astimezone():%Y-%m-%d %H:%M}", str(row.turns), ", ".join(row.paths))
        for row in rows
    ]
    names = tuple(row.id for row in rows)
    return TableView("Sessions (Enter opens)", ("id", "run", "last used", "asked", "paths"), tuple(cells), names)
