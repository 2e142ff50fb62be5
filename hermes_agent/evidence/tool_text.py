"""The result of a tool as text for a model or a person: figures with their ids, rows as a table, notes."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_agent.evidence.citations import written
from hermes_agent.evidence.ledger import quoted
from hermes_agent.evidence.printable import printable
from tools.agent_tools.result import CitedFigure, Result, Row

CELL_CHARS = 160
MOST_OF_NAME = 80  # characters that ``quoted`` keeps
NAMES = ("name", "on", "group", "value", "host")  # columns with text of the run, shown in code marks


def result_text(result: Result) -> str:
    """The result as lines; a row's name longer than a line is cut with "…", its id opens it."""
    lines = [*([result.text] if result.text else []), *(figure_line(each) for each in result.facts)]
    if result.rows:
        lines += ["", *_table(result.rows)]
    if result.cursor is not None:
        lines.append(
            f"Rows `{len(result.rows)} of {result.total}`; call again with cursor `{result.cursor}` for the next."
        )
    lines += [printable(note) for note in result.notes]
    return "\n".join(lines).strip() or "There are no such rows."


def figure_line(figure: CitedFigure) -> str:
    """``- mean step time: 12.0 ms [E7]``."""
    what = f"{figure.label} {_name(figure.name)}" if figure.name else figure.label
    cite = f" [{figure.id}]" if figure.id else ""
    return f"- {what.strip()}: {written(figure.value, figure.unit)}{cite}"


def _name(text: str) -> str:
    """A name in code marks; of a long one its begin and its end, where modules and kernels differ."""
    if len(text) <= MOST_OF_NAME:
        return quoted(text)
    half = MOST_OF_NAME // 2
    return quoted(f"{text[: half - 1]}…{text[-half:]}")


def _table(rows: Sequence[Row]) -> list[str]:
    names = list(dict.fromkeys(name for row in rows for name in type(row).model_fields))
    cells = [[_cell(name, getattr(row, name, None)) for name in names] for row in rows]
    used = [place for place, name in enumerate(names) if name == "id" or any(row[place] for row in cells)]
    return [" | ".join(names[place] for place in used), *(" | ".join(row[place] for place in used) for row in cells)]


def _cell(name: str, value: object) -> str:
    match value:
        case None:
            return ""
        case bool() | int():
            return str(value)
        case float():
            return f"{value:.6g}"
        case dict():
            return ", ".join(f"{key} {_cell(name, each)}" for key, each in value.items())
        case tuple():
            return ", ".join(_cell(name, each) for each in value)
        case Row():
            shown = ((key, getattr(value, key)) for key in type(value).model_fields)
            return " ".join(_cell(key, each) for key, each in shown if each not in (None, ""))
        case "":
            return ""
        case _:
            return _name(str(value)) if name in NAMES else printable(str(value), CELL_CHARS)
