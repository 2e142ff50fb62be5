"""Screens over the conversation: the record behind an id, a table, the help. Esc closes each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import DataTable, Static

from hermes_agent.llm.sanitize import one_line
from hermes_agent.tui.messages import PlainMessage, plain
from hermes_agent.tui.sections import TableView
from hermes_agent.tui.tables import fitted

if TYPE_CHECKING:
    from hermes_agent.session import Shown

CELL_LIMIT = 120
WRAPPED_LIMIT = 1000  # of a cell that is shown in several lines
OVERLAY_PCT, OVERLAY_CELLS, FRAME_CELLS = 96, 130, 4  # of an overlay's width, as in chat.tcss, and its frame
CLOSES = "Esc closes"
AGREES = "Measured again just now: it equals the stored figure."
DIFFERS = "Measured again just now: it does NOT equal the stored figure."


class Overlay(ModalScreen[None]):
    """A frame with a title, a body and a hint, which Esc closes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "close", show=False)]

    def __init__(self, title: str, *body: Widget, hint: str = CLOSES) -> None:
        super().__init__()
        self._hint, self._note = hint, Static(plain(hint), classes="hint")
        self._parts = (Static(plain(title), classes="title"), *body, self._note)

    def compose(self) -> ComposeResult:
        """Draw the frame."""
        yield Vertical(*self._parts, classes="overlay")

    def on_table_fitted(self, event: Table.Fitted) -> None:
        """Name the columns that are not shown."""
        left_out = f"; all zero and not shown: {', '.join(event.left_out)}" if event.left_out else ""
        self._note.update(plain(f"{self._hint}{left_out}"))


class Table(DataTable[Text]):
    """A table of outside text, cleaned and never read as markup, that fits the width of the screen."""

    @dataclass
    class Fitted(Message):
        """The table was filled; columns that hold only zeros may have been left out."""

        left_out: tuple[str, ...]

    def __init__(self, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], wrap: bool = False) -> None:
        super().__init__(zebra_stripes=True, cursor_type="row")
        self._names = tuple(one_line(column, CELL_LIMIT) for column in columns)
        limit, self._wrap = (WRAPPED_LIMIT if wrap else CELL_LIMIT), wrap
        self._cells = tuple(tuple(one_line(cell, limit) for cell in row) for row in rows)
        self._drawn_for = 0

    def on_mount(self) -> None:
        """Fill the table, which has no size yet, for the width of the screen."""
        self._fill(min(self.app.size.width * OVERLAY_PCT // 100, OVERLAY_CELLS) - FRAME_CELLS)

    def on_resize(self) -> None:
        """Fill the table again for a new width."""
        self._fill(self.size.width)

    def _fill(self, width: int) -> None:
        if width < 1 or width == self._drawn_for:
            return
        self._drawn_for, row = width, self.cursor_row
        table = fitted(self._names, self._cells, width, "..." if self.app.has_class("-ascii") else "…", wrap=self._wrap)
        self.clear(columns=True)
        self.header_height = table.header_lines
        for column in table.columns:
            self.add_column(Text(column))
        for cells in table.rows:
            self.add_row(*map(Text, cells), height=max((cell.count("\n") + 1 for cell in cells), default=1))
        self.move_cursor(row=row)
        self.post_message(self.Fitted(table.left_out))


class EvidenceScreen(Overlay):
    """The record behind one id of the run ``about``: the stored figure, the one measured again, rows of the trace."""

    def __init__(self, shown: Shown, about: str, title: str) -> None:
        table = shown.table
        body: list[Widget] = []
        if shown.agrees is not None:
            body.append(Static(AGREES, classes="agrees") if shown.agrees else Static(DIFFERS, classes="differs"))
        body.append(VerticalScroll(PlainMessage(shown.lines, "detail", about), classes="lines" if table else "whole"))
        if table is not None:
            body.append(Static(plain(f"{len(table.rows)} of {table.total} rows"), classes="hint"))
            body.append(Table(table.columns, table.rows))
        super().__init__(title, *body)


class ResultScreen(Overlay):
    """The whole result of a tool call."""

    def __init__(self, title: str, text: str) -> None:
        super().__init__(title, VerticalScroll(Static(plain(text)), classes="whole"))


class TableScreen(Overlay):
    """A table; where rows stand for ids of the run ``about``, Enter opens one."""

    def __init__(self, view: TableView, about: str) -> None:
        super().__init__(view.title, Table(view.columns, view.rows, view.wrap))
        self._identifiers, self._about = view.identifiers, about

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the record of the row."""
        event.stop()
        if self._identifiers:
            self.choose(self._identifiers[event.cursor_row])

    def choose(self, identifier: str) -> None:
        """Open the record."""
        self.post_message(PlainMessage.CitationOpened(identifier, self._about))


class SessionScreen(TableScreen):
    """The kept sessions; Enter opens one again."""

    @dataclass
    class Chosen(Message):
        """The request to open a session again."""

        identifier: str

    def __init__(self, view: TableView) -> None:
        super().__init__(view, "")

    def choose(self, identifier: str) -> None:
        """Close the list and open the session."""
        self.post_message(self.Chosen(identifier))
        self.dismiss()


class HelpScreen(Overlay):
    """Names by topic and the keys, which fit a small terminal; below them one line for each command."""

    def __init__(
        self,
        topics: Sequence[tuple[str, str]],
        keys: Sequence[tuple[str, str]],
        commands: Sequence[tuple[str, str]],
    ) -> None:
        parts = [_in_columns(topics), Content(), _in_columns(keys), Content(), _in_columns(commands)]
        body = VerticalScroll(Static(Content("\n").join(parts)), classes="whole")
        super().__init__("Hermes: commands and keys", body, hint=f"{CLOSES}; Down shows what each command does")
        self.add_class("-tall")


def _in_columns(rows: Sequence[tuple[str, str]]) -> Content:
    """Two columns, the first in bold."""
    widest = max(len(typed) for typed, _ in rows)
    lines = [Content.assemble((typed.ljust(widest), "bold"), "  ", meaning) for typed, meaning in rows]
    return Content("\n").join(lines)
