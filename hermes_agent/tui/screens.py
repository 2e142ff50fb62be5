"""Screens over the conversation: the record behind an id, a table, the help. Esc closes each."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import DataTable, Static

from hermes_agent.llm.sanitize import one_line
from hermes_agent.tui.messages import PlainMessage, plain
from hermes_agent.tui.sections import TableView

if TYPE_CHECKING:
    from hermes_agent.session import Shown

CELL_LIMIT = 120
CLOSES = "Esc closes"
AGREES = "Measured again just now: it equals the stored figure."
DIFFERS = "Measured again just now: it does NOT equal the stored figure."


class Overlay(ModalScreen[None]):
    """A frame with a title, a body and a hint, which Esc closes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "close", show=False)]

    def __init__(self, title: str, *body: Widget, hint: str = CLOSES) -> None:
        super().__init__()
        self._parts = (Static(plain(title), classes="title"), *body, Static(plain(hint), classes="hint"))

    def compose(self) -> ComposeResult:
        """Draw the frame."""
        yield Vertical(*self._parts, classes="overlay")


def data_table(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> DataTable[Text]:
    """Return a table of outside text: cleaned, cut and never read as markup."""
    table: DataTable[Text] = DataTable(zebra_stripes=True, cursor_type="row")
    for column in columns:
        table.add_column(Text(one_line(column, CELL_LIMIT)))
    for row in rows:
        table.add_row(*(Text(one_line(cell, CELL_LIMIT)) for cell in row))
    return table


class EvidenceScreen(Overlay):
    """The record behind one id: the stored figure, the one measured again, and rows of the trace."""

    def __init__(self, shown: Shown) -> None:
        table = shown.table
        body: list[Widget] = []
        if shown.agrees is not None:
            body.append(Static(AGREES, classes="agrees") if shown.agrees else Static(DIFFERS, classes="differs"))
        body.append(VerticalScroll(PlainMessage(shown.lines, "detail"), classes="lines" if table else "whole"))
        if table is not None:
            body.append(Static(plain(f"{len(table.rows)} of {table.total} rows"), classes="hint"))
            body.append(data_table(table.columns, table.rows))
        super().__init__(shown.title, *body)


class TableScreen(Overlay):
    """A table; where rows stand for ids, Enter opens one."""

    def __init__(self, view: TableView) -> None:
        super().__init__(view.title, data_table(view.columns, view.rows))
        self._identifiers = view.identifiers

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the record of the row."""
        event.stop()
        if self._identifiers:
            self.post_message(PlainMessage.CitationOpened(self._identifiers[event.cursor_row]))


class HelpScreen(Overlay):
    """All commands and keys, one line each; the arrow keys scroll where they do not fit."""

    def __init__(self, rows: tuple[tuple[str, str], ...]) -> None:
        widest = max(len(typed) for typed, _ in rows)
        lines = [Content.assemble((typed.ljust(widest), "bold"), "  ", meaning) for typed, meaning in rows]
        body = VerticalScroll(Static(Content("\n").join(lines)), classes="whole")
        super().__init__("Hermes: commands and keys", body, hint=f"{CLOSES}, Up and Down scroll")
