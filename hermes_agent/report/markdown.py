"""A diagnosis as Markdown, for an issue or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.report.sections import BEFORE_BREAKDOWN, COLUMNS, Item, Section, sections

CELL_CHARS = 400
MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!])")


def render_markdown(diagnosis: Diagnosis) -> str:
    """The whole diagnosis; names from the run stand in back quotes already."""
    found = sections(diagnosis)
    before = [_section(found[name]) for name in BEFORE_BREAKDOWN if name in found]
    rest = {name: _section(section, name) for name, section in found.items() if name not in BEFORE_BREAKDOWN}
    parts = [
        f"# {diagnosis.verdict.capitalize()}",
        ("\n\n" if diagnosis.answer_by == "model" else "\n").join(diagnosis.answer),
        *before,
        _breakdown(diagnosis),
        rest.pop("checks", ""),
        _evidence(diagnosis),
        *rest.values(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section, name: str = "") -> str:
    before = [section.before, ""] if section.before else []
    items = [line for item in section.items for line in _item(item, name)]
    return "\n".join([f"## {section.title}", "", *before, *items, *(f"\n{text}" for text in section.after)])


def _item(item: Item, name: str) -> list[str]:
    """Lines of one item; titles of cases are links, and notes may hold markup of the run."""
    mark = item.mark.strip()
    match name:
        case "notes":
            return ["- " + MARKUP.sub(r"\\\1", item.text)]
        case "cases":
            return [f"- {mark} [{item.title}]({item.url})" if item.url else f"- {mark} {item.title}"]
        case "checks":
            return [f"- {mark} `{item.title}`{item.text}"]
    if not item.title:
        return [f"- {item.text}"]
    title = item.title if mark == "-" else f"{mark} {item.title}"
    head = f"{mark} **{item.title}**" if mark.endswith(".") else f"- **{title}**"
    return [f"{head}{item.text}", *(f"   - {line}" for line in item.lines)]


def _breakdown(diagnosis: Diagnosis) -> str:
    rows = [row for row in diagnosis.breakdown if row.step is None]
    if not rows:
        return ""
    cells = [[str(row.rank), *(f"{getattr(row, f'{name}_ms'):.2f}" for name in COLUMNS)] for row in rows]
    heads = ["rank", *(name.replace("_", " ") for name in COLUMNS)]
    return "\n".join(["## Time per step (ms, mean over steps)", "", *_table(heads, cells)])


def _evidence(diagnosis: Diagnosis) -> str:
    heads = ("id", "metric", "value", "unit", "arguments", "source")
    rows = []
    for row in diagnosis.evidence:
        arguments = ", ".join(f"{name}={_cell(value)}" for name, value in row.arguments.items())
        rows.append([row.id, row.metric, f"{row.value:.6g}", row.unit, arguments, _cell(row.source.selector)])
    return "\n".join(["## Evidence", "", *_table(heads, rows)])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(row)} |" for row in rows)]


def _cell(value: object) -> str:
    """A value for a cell of a table; a text may hold names from the run, so it stands in back quotes."""
    if not isinstance(value, str):
        return str(value)
    text = printable(value, CELL_CHARS).replace("`", "'").replace("|", "/")
    return f"`{text}`" if text.strip() else ""
