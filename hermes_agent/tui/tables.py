"""Tables of a diagnosis: columns and rows as text, which a screen shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_agent.model.diagnosis import BreakdownRow, CheckRecord, Diagnosis
from hermes_agent.model.display import PART_TITLES, plain


@dataclass(frozen=True)
class TableView:
    """A table. ``identifiers`` holds the id that Enter opens on each row; empty when rows open nothing."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    identifiers: tuple[str, ...] = ()


def evidence(diagnosis: Diagnosis) -> TableView:
    """Return every figure cited."""
    rows = tuple(
        (each.id, each.metric, f"{each.value:.6g}", each.unit, _arguments(each.arguments), each.source.selector)
        for each in diagnosis.evidence
    )
    columns = ("id", "metric", "value", "unit", "arguments", "from")
    return TableView("Figures cited (Enter opens)", columns, rows, tuple(each.id for each in diagnosis.evidence))


def checks(diagnosis: Diagnosis) -> TableView:
    """Return the result of every check: those that found something, then those that cannot answer, then the clean."""
    order = ("found", "cannot_answer", "clean")
    checks = sorted(diagnosis.checks, key=lambda each: order.index(each.status))
    rows = tuple((each.analyzer, plain(each.status), _result(each)) for each in checks)
    return TableView("Checks (Enter opens)", ("check", "outcome", "result"), rows, tuple(row[0] for row in rows))


def _result(check: CheckRecord) -> str:
    if check.status == "cannot_answer":
        return f"{check.reason.rstrip('.')}. Needs {check.needs.rstrip('.')}."
    return " ".join(check.text)


def ranks(diagnosis: Diagnosis) -> TableView:
    """Return the mean over steps for each rank, in ms."""
    rows = [((row.rank,), row) for row in diagnosis.breakdown if row.step is None]
    return _breakdown("Time breakdown per rank, ms, mean over steps", ("rank",), rows)


def steps(diagnosis: Diagnosis) -> TableView:
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
