"""A diagnosis as Markdown, for an issue or a pull request."""

from __future__ import annotations

import re

from hermes_agent.evidence.cases import similar_cases_title
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import CaseRecord, Diagnosis
from hermes_agent.model.display import cause_heading
from hermes_agent.report.lines import COLUMNS, MARKS, cause_facts, cause_lines, interval_meaning, notes_of
from tools.knowledge.taxonomy import EFFORTS

CELL_CHARS = 400
MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!])")


def render_markdown(diagnosis: Diagnosis) -> str:
    """The whole diagnosis; names from the run stand in back quotes already."""
    parts = [
        f"# {diagnosis.verdict.capitalize()}",
        ("\n\n" if diagnosis.answer_by == "model" else "\n").join(diagnosis.answer),
        _breakdown(diagnosis),
        _causes(diagnosis),
        _advice(diagnosis),
        _comparison(diagnosis),
        _checks(diagnosis),
        _evidence(diagnosis),
        _cases(diagnosis),
        _notes(diagnosis),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _breakdown(diagnosis: Diagnosis) -> str:
    if not diagnosis.breakdown:
        return ""
    lines = ["## Time per step (ms, mean over steps)", ""]
    lines.append("| rank | " + " | ".join(name.replace("_", " ") for name in COLUMNS) + " |")
    lines.append("|" + "---|" * (len(COLUMNS) + 1))
    for row in diagnosis.breakdown:
        if row.step is None:
            values = " | ".join(f"{getattr(row, f'{name}_ms'):.2f}" for name in COLUMNS)
            lines.append(f"| {row.rank} | {values} |")
    return "\n".join(lines)


def _causes(diagnosis: Diagnosis) -> str:
    if not diagnosis.causes:
        return ""
    lines = ["## Causes, largest saving first", ""]
    for place, cause in enumerate(diagnosis.causes, start=1):
        title = cause_heading(cause.cause, cause.mechanism)
        lines.append(f"{place}. **{title}** ({cause_facts(cause, diagnosis)}): {cause.claim}")
        lines += [f"   - {line}" for line in cause_lines(cause)]
    return "\n".join(lines)


def _advice(diagnosis: Diagnosis) -> str:
    if not diagnosis.advice:
        return ""
    lines = ["## What to change, largest gain first", ""]
    for item in diagnosis.advice:
        lines.append(f"- **{item.id} {item.optimization}** ({EFFORTS[item.effort]} of work): {item.how}. {item.text}")
        lines.append(f"  Risk: {item.risk}. Verify: {item.verify}.")
    lines += [part for meaning in interval_meaning(diagnosis) for part in ("", meaning)]
    return "\n".join(lines)


def _comparison(diagnosis: Diagnosis) -> str:
    comparison = diagnosis.comparison
    if comparison is None:
        return ""
    return "\n".join(
        ["## Against the baseline", "", comparison.headline, *(f"- {each}" for each in comparison.changes)]
    )


def _checks(diagnosis: Diagnosis) -> str:
    lines = ["## Checks", ""]
    for check in diagnosis.checks:
        said = " ".join(check.text) if check.status != "cannot_answer" else f"{check.reason} Needs: {check.needs}"
        lines.append(f"- {MARKS[check.status]} `{check.analyzer}`: {said}")
    return "\n".join(lines)


def _evidence(diagnosis: Diagnosis) -> str:
    lines = ["## Evidence", "", "| id | metric | value | unit | arguments | source |", "|---|---|---|---|---|---|"]
    for row in diagnosis.evidence:
        arguments = ", ".join(f"{name}={_cell(value)}" for name, value in row.arguments.items())
        source = _cell(row.source.selector)
        lines.append(f"| {row.id} | {row.metric} | {row.value:.6g} | {row.unit} | {arguments} | {source} |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    """A value for a cell of a table; a text may hold names from the run, so it stands in back quotes."""
    if not isinstance(value, str):
        return str(value)
    text = printable(value, CELL_CHARS).replace("`", "'").replace("|", "/")
    return f"`{text}`" if text.strip() else ""


def _notes(diagnosis: Diagnosis) -> str:
    notes = notes_of(diagnosis)
    return "\n".join(["## Notes", "", *(f"- {_plain(note)}" for note in notes)]) if notes else ""


def _plain(text: str) -> str:
    return MARKUP.sub(r"\\\1", text)


def _cases(diagnosis: Diagnosis) -> str:
    if not diagnosis.cases:
        return ""
    lines = [f"## {similar_cases_title(diagnosis.cases)}", ""]
    return "\n".join([*lines, *map(_case, diagnosis.cases)])


def _case(case: CaseRecord) -> str:
    return f"- [{case.id}] [{case.title}]({case.url})" if case.url else f"- [{case.id}] {case.title}"
