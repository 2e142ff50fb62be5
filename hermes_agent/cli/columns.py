"""Rows as aligned text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table whose first ``left`` columns are flush left and the others flush right."""
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    )
