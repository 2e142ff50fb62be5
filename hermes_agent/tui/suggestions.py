"""The list above the input while a command, a path or the name of a run is typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from hermes_agent.llm.sanitize import one_line

MOST = 50  # lines offered
LINE_LIMIT = 200


@dataclass(frozen=True)
class Suggestion:
    """A line that the input may become, and its meaning; ``certain`` ones are chosen by Enter without an arrow."""

    line: str
    meaning: str = ""
    certain: bool = False


class Suggestions(OptionList, can_focus=False):
    """The lines that may follow; the input keeps the focus and drives the list."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self) -> None:
        super().__init__(id="suggestions", compact=True)
        self.display = False
        self._offered: tuple[Suggestion, ...] = ()

    def offer(self, found: Sequence[Suggestion]) -> None:
        """Show these lines, or nothing when there is none."""
        self._offered = tuple(found[:MOST])
        self.clear_options()
        if not self._offered:
            self.display = False
            return
        widest = max(len(each.line) for each in self._offered) if self._offered[0].meaning else 0
        for each in self._offered:
            typed = one_line(each.line, LINE_LIMIT)
            meaning = f"  {each.meaning}" if each.meaning else ""
            self.add_option(Option(Content.assemble((typed.ljust(widest), "bold"), meaning)))
        self.display = True
        self.highlighted = 0 if self._offered[0].certain else None

    def close(self) -> None:
        """Hide the list."""
        self.offer(())

    @property
    def chosen(self) -> Suggestion | None:
        """The highlighted line, None where none is or the list is hidden."""
        place = self.highlighted
        return self._offered[place] if self.display and place is not None else None

    def line_at(self, place: int) -> str:
        """The line at a place, for a click on it."""
        return self._offered[place].line

    def move(self, step: int) -> None:
        """Highlight the next or the previous line."""
        if self.highlighted is None:
            self.highlighted = 0 if step > 0 else len(self._offered) - 1
        else:
            self.highlighted = (self.highlighted + step) % len(self._offered)
