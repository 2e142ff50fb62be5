"""Tables that fit a width: long names are folded in the middle, headers are broken, figures stay whole."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d"
FIGURE = re.compile(rf"{DATE}|[-+]?[\d.,]*\d(?:e[-+]?\d+)?(?: ?(?:%|x|[a-zA-Zµ]{{1,6}}(?:/s)?))?|-?", re.ASCII)
IDENTIFIER = re.compile(r"(.*\b)?(rank|step|id|pid|tid|stream|device|index|group)", re.IGNORECASE)
LEAST_TEXT = 8  # cells of a folded name
PADDING = 2  # cells that a table puts around each column


@dataclass(frozen=True)
class FittedTable:
    """Cells as they are shown; ``left_out`` names columns of zeros, left out for want of room.

    Rank 0 is no zero: a column of identifiers is always shown.
    """

    columns: tuple[str, ...]  # with line breaks
    rows: tuple[tuple[str, ...], ...]
    left_out: tuple[str, ...] = ()

    @property
    def header_lines(self) -> int:
        """The lines of the highest header."""
        return max((column.count("\n") + 1 for column in self.columns), default=1)


def folded(text: str, width: int, ellipsis: str = "…") -> str:
    """The text with its middle left out where it is longer than ``width``: names differ at their ends."""
    if len(text) <= width:
        return text
    room = max(width - len(ellipsis), 1)
    head = (room + 1) // 2
    return text[:head] + ellipsis + text[len(text) - (room - head) :]


def fitted(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, ellipsis: str = "…", *, wrap: bool = False
) -> FittedTable:
    """The table in ``width`` cells as far as its figures allow; with ``wrap`` texts are broken, not folded."""
    kept = list(range(len(columns)))
    if _needed(columns, rows, kept) > width:
        zeros = [
            each
            for each in kept
            if rows and not IDENTIFIER.fullmatch(columns[each]) and all(_is_zero(row[each]) for row in rows)
        ]
        kept = [each for each in kept if each not in zeros]
    left_out = tuple(columns[each] for each in range(len(columns)) if each not in kept)
    figures = [all(FIGURE.fullmatch(row[each]) for row in rows) for each in kept]
    widest = [max((len(row[each]) for row in rows), default=0) for each in kept]
    least = [w if figure else min(w, LEAST_TEXT) for w, figure in zip(widest, figures, strict=True)]
    widths = [
        w if figure else max(w, _longest_word(columns[each]))
        for each, w, figure in zip(kept, widest, figures, strict=True)
    ]
    widths = [
        max(w, min(_longest_word(columns[each]), LEAST_TEXT)) if figure else w
        for each, w, figure in zip(kept, widths, figures, strict=True)
    ]
    spare = width - sum(widths) - PADDING * len(kept)
    for place, each in enumerate(kept):  # headers whole where there is room
        more = max(min(_longest_word(columns[each]) - widths[place], spare), 0)
        widths[place] += more
        spare -= more
    while spare < 0:
        place = max(range(len(kept)), key=lambda each: widths[each] - max(least[each], LEAST_TEXT))
        if widths[place] <= max(least[place], LEAST_TEXT):
            break
        widths[place] -= 1
        spare += 1
    return FittedTable(
        tuple(_header(columns[each], cells, ellipsis) for each, cells in zip(kept, widths, strict=True)),
        tuple(
            tuple(
                row[each] if figure else _text(row[each], cells, ellipsis, wrap)
                for each, cells, figure in zip(kept, widths, figures, strict=True)
            )
            for row in rows
        ),
        left_out,
    )


def _text(text: str, cells: int, ellipsis: str, wrap: bool) -> str:
    return textwrap.fill(text, cells, break_on_hyphens=False) if wrap else folded(text, cells, ellipsis)


def _needed(columns: Sequence[str], rows: Sequence[Sequence[str]], kept: Sequence[int]) -> int:
    return sum(max([_longest_word(columns[each]), *(len(row[each]) for row in rows)]) + PADDING for each in kept)


def _is_zero(text: str) -> bool:
    return bool(re.fullmatch(r"-?0(\.0+)?", text))


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _header(text: str, cells: int, ellipsis: str) -> str:
    lines: list[str] = []
    for word in (folded(each, cells, ellipsis) for each in text.split()):
        if lines and len(lines[-1]) + 1 + len(word) <= cells:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "\n".join(lines)
