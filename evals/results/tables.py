"""Tables and shares in the report's Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evals.results.means import Mean


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a Markdown table with aligned columns; nothing without rows."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    if len(cells) == 1:
        return []
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    aligned = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    return [*(f"| {' | '.join(row)} |" for row in aligned), ""]


def percent(value: Mean | None) -> str:
    """Return ``85 % [70, 95] of 20``, or a dash; never 0 or 100 for what is only close to it."""
    if value is None:
        return "-"
    low, middle, high = (_share(part) for part in (value.low, value.mean, value.high))
    return f"{middle} % [{low}, {high}] of {value.cases}"


def _share(part: float) -> str:
    whole = f"{100 * part:.0f}"
    if (whole == "100" and part < 1.0) or (whole == "0" and part > 0.0):
        return f"{min(max(100 * part, 0.1), 99.9):.1f}"
    return whole
