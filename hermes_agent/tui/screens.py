"""Screens over the conversation: what stands behind an id, a table, the help. Esc closes each."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import DataTable, Static

from hermes_agent.llm.sanitize import one_line
from hermes_agent.tui.commands import help_rows
from hermes_agent.tui.messages import PlainMessage
from hermes_agent.tui.prose import plain
from hermes_agent.tui.tables import TableView

if TYPE_CHECKING:
    from hermes_agent.session import Shown

CELL_LIMIT = 120
CLOSES = "Esc closes"
AGREES = "Measured again just now: it equals the stored figure."
DIFFERS = "Measured again just now: it does NOT equal the stored figure."


class Overlay(ModalScreen[None]):
    """A screen with a title that Esc closes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "close", show=False)]

    def __init__(self, title: str, hint: str = CLOSES) -> None:
        super().__init__()
        self._title_text = title
        self._hint = hint

    def compose(self) -> ComposeResult:
        """A frame with the title, the body and the hint."""
        with Vertical(classes="overlay"):
            yield Static(plain(self._title_text), classes="title")
            yield from self.body()
            yield Static(plain(self._hint), classes="hint")

    def body(self) -> ComposeResult:
        """What the screen is about."""
        yield from ()


def data_table(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> DataTable[Text]:
    """A table of outside text: cleaned, cut and never read as markup."""
    table: DataTable[Text] = DataTable(zebra_stripes=True, cursor_type="row")
    for column in columns:
        table.add_column(Text(one_line(column, CELL_LIMIT)))
    for row in rows:
        table.add_row(*(Text(one_line(cell, CELL_LIMIT)) for cell in row))
    return table


class EvidenceScreen(Overlay):
    """What stands behind one id: the stored figure, the one measured again, and rows of the trace."""

    def __init__(self, shown: Shown) -> None:
        super().__init__(shown.title)
        self._shown = shown

    def body(self) -> ComposeResult:
        """The verdict on the figure, the lines about it and its rows."""
        shown = self._shown
        if shown.agrees is not None:
            said, kind = (AGREES, "agrees") if shown.agrees else (DIFFERS, "differs")
            yield Static(Content(said), classes=kind)
        with VerticalScroll(classes="lines" if shown.table else "lines whole"):
            yield PlainMessage(shown.lines, "detail")
        if shown.table is not None:
            yield Static(plain(f"{len(shown.table.rows)} of {shown.table.total} rows"), classes="hint")
            yield data_table(shown.table.columns, shown.table.rows)


class TableScreen(Overlay):
    """A table to look at; where rows stand for ids, Enter opens one."""

    def __init__(self, view: TableView) -> None:
        super().__init__(view.title)
        self._view = view

    def body(self) -> ComposeResult:
        """The table."""
        yield data_table(self._view.columns, self._view.rows)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Opens what the row stands for."""
        event.stop()
        if self._view.identifiers:
            self.post_message(PlainMessage.CitationOpened(self._view.identifiers[event.cursor_row]))


class HelpScreen(Overlay):
    """All commands and keys."""

    def __init__(self) -> None:
        super().__init__("Hermes: commands and keys")

    def body(self) -> ComposeResult:
        """One line per command and key."""
        widest = max(len(typed) for typed, _ in help_rows())
        lines = [Content.assemble((typed.ljust(widest), "bold"), "  ", meaning) for typed, meaning in help_rows()]
        with VerticalScroll(classes="lines"):
            yield Static(Content("\n").join(lines))
