"""Tables of an answer at any width: figures, ids and citations stand whole, only names and sentences wrap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Markdown, Static
from textual.widgets._markdown import MarkdownTable

from hermes_agent.evidence.citations import CITATION
from hermes_agent.tui.tables import FIGURE

GAP = 2  # cells between two columns
LEAST_NAME = 16  # cells of a column of names
SHORT = 12  # characters of a cell that is never worth a second line
WORDS = re.compile(rf"(?:{CITATION.pattern}|\S)+")  # a citation with several ids is one word
COUNT = re.compile(r"[-+]?[\d.,]*\d [\w/]+")  # "12 calls"
IDENTIFIER = re.compile(r"[a-z]\d+\.\w+")  # "n0.09ace8ea"
STYLES = {".code_inline": "$text-warning", ".strong": "bold", ".em": "italic", ".s": "strike"}
HEADER_STYLE = "$text-primary bold"


def drawn(headers: Sequence[Content], rows: Sequence[Sequence[Content]], width: int) -> Content:
    """The table in ``width`` cells; rows become lines of ``header: cell`` where its columns do not fit beside."""
    widths = _widths(headers, rows, width)
    if widths is None:
        return Content("\n\n").join([Content("\n").join(_as_lines(headers, row, width)) for row in rows])
    first = [header.stylize(HEADER_STYLE) for header in headers]
    return Content("\n").join([line for row in (first, *rows) for line in _beside(row, widths)])


def wrapped(text: Content, width: int) -> list[Content]:
    """The lines of a text; only a word that is longer than a line is broken."""
    lines: list[tuple[int, int]] = []
    for start, end in _pieces(text.plain, width):
        if lines and text[lines[-1][0] : end].cell_length <= width:
            lines[-1] = lines[-1][0], end
        else:
            lines.append((start, end))
    return [text[start:end] for start, end in lines] or [Content()]


def _pieces(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Where the words begin and end; those longer than a line fall apart at spaces, then anywhere."""
    for match in WORDS.finditer(text):
        parts = (
            [match] if Content(match.group()).cell_length <= width else re.compile(r"\S+").finditer(text, *match.span())
        )
        for start, end in (part.span() for part in parts):
            while Content(text[start:end]).cell_length > width:
                cut = next(
                    at
                    for at in range(end, start, -1)
                    if at == start + 1 or Content(text[start:at]).cell_length <= width
                )
                yield start, cut
                start = cut
            if start < end:
                yield start, end


def _widths(headers: Sequence[Content], rows: Sequence[Sequence[Content]], width: int) -> list[int] | None:
    """The cells of each column; None where they do not fit beside each other."""
    widths, least = [], []
    for header, *cells in zip(headers, *rows, strict=True):
        natural = max((each.cell_length for each in cells), default=0)
        word = max((Content(each).cell_length for each in header.plain.split()), default=0)
        if all(_whole(each.plain) for each in cells):
            widths.append(max(natural, word))
            least.append(max(natural, word))
        else:
            widths.append(max(natural, word))
            least.append(max(LEAST_NAME, word, *(_longest_cited(each.plain) for each in cells)))
    spare = width - sum(widths) - GAP * (len(widths) - 1)
    while spare < 0:
        place = max(range(len(widths)), key=lambda each: widths[each] - least[each])
        if widths[place] <= least[place]:
            return None
        widths[place] -= 1
        spare += 1
    return widths


def _whole(text: str) -> bool:
    """Whether a cell stays on one line: a figure, a count or an id, with or without citations, or a short word."""
    bare = CITATION.sub("", text).strip()
    return len(text) <= SHORT or any(each.fullmatch(bare) for each in (FIGURE, COUNT, IDENTIFIER))


def _longest_cited(text: str) -> int:
    return max(
        (Content(each.group()).cell_length for each in WORDS.finditer(text) if CITATION.search(each.group())), default=0
    )


def _beside(row: Sequence[Content], widths: Sequence[int]) -> Iterator[Content]:
    columns = [wrapped(cell, cells) for cell, cells in zip(row, widths, strict=True)]
    for line in range(max(map(len, columns))):
        cells = [column[line] if line < len(column) else Content() for column in columns]
        padded = [cell.pad_right(cells_of - cell.cell_length) for cell, cells_of in zip(cells, widths, strict=True)]
        yield Content(" " * GAP).join(padded).rstrip()


def _as_lines(headers: Sequence[Content], row: Sequence[Content], width: int) -> Iterator[Content]:
    for header, cell in zip(headers, row, strict=True):
        yield from wrapped(Content.assemble(header.stylize(HEADER_STYLE), ": ", cell), width)


class TableText(Static):
    """The text of a table, drawn again for every width."""

    class Redrawn(Message):
        """The places of the citations are new."""

    def __init__(self, headers: Sequence[Content], rows: Sequence[Sequence[Content]]) -> None:
        super().__init__()
        self._headers = tuple(map(_styled, headers))
        empty = (Content(),) * len(headers)
        self._rows = tuple((*map(_styled, row), *empty)[: len(headers)] for row in rows)
        self._drawn_for = 0

    def on_resize(self) -> None:
        """Draw the table for a new width."""
        width = self.content_size.width
        if width < 1 or width == self._drawn_for:
            return
        self._drawn_for = width
        self.update(drawn(self._headers, self._rows, width))
        self.post_message(self.Redrawn())


def _styled(cell: Content) -> Content:
    """The cell with the styles of Markdown's own widgets, which hold only there, as styles of the theme."""
    for span in cell.spans:
        if isinstance(span.style, str) and span.style in STYLES:
            cell = cell.stylize(STYLES[span.style], span.start, span.end)
    return cell


class AnswerTable(MarkdownTable):
    """A table of Markdown as text that fits, where Textual's own cuts figures and citations."""

    def compose(self) -> ComposeResult:
        """Draw the table."""
        yield TableText(*self._get_headers_and_rows())


class AnswerMarkdown(Markdown):
    """Markdown whose tables keep their figures and citations at any width."""

    BLOCKS = {**Markdown.BLOCKS, "table_open": AnswerTable}  # noqa: RUF012 - as the base class has it
