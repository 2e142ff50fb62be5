"""The input line, with the history of typed lines and completion of commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input

LONGEST = 4000  # characters; a longer paste is cut
REMEMBERED = 200  # lines


class Prompt(Input):
    """Up and Down walk through the typed lines; Tab completes a command, elsewhere it leaves the input."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", "earlier", show=False),
        Binding("down", "walk(1)", "later", show=False),
        Binding("tab", "complete", "complete", show=False),
    ]

    @dataclass
    class Ambiguous(Message):
        """Several completions are possible, or none."""

        lines: Sequence[str]

    def __init__(self, words: Sequence[str], candidates: Callable[[str], Sequence[str]]) -> None:
        super().__init__(
            id="prompt",
            compact=True,
            placeholder="Ask about the run, or / for commands",
            suggester=SuggestFromList(words),
            max_length=LONGEST,
            select_on_focus=False,
        )
        self._candidates = candidates
        self._history: list[str] = []
        self._at, self._draft = 0, ""

    def remember(self, text: str) -> None:
        """Add a line to the history; repeating the last one adds nothing."""
        if self._history[-1:] != [text]:
            self._history = [*self._history, text][-REMEMBERED:]
        self._at, self._draft = len(self._history), ""

    def fill(self, text: str) -> None:
        """Replace the text, to be completed by the person."""
        self.value = text
        self.cursor_position = len(text)
        self.focus()

    def go_on(self, character: str) -> None:
        """Take a character that was typed elsewhere, and all that follow."""
        self.focus()
        self.insert_text_at_cursor(character)

    def action_walk(self, step: int) -> None:
        """Show an earlier or later typed line, and after the last one the unfinished one."""
        if self._at == len(self._history):
            self._draft = self.value
        self._at = min(max(self._at + step, 0), len(self._history))
        self.fill([*self._history, self._draft][self._at])

    def action_complete(self) -> None:
        """Complete a command as far as the candidates agree; any other text moves on to the next widget."""
        if not self.value.startswith("/"):
            self.screen.focus_next()
            return
        lines = self._candidates(self.value)
        shared = os.path.commonprefix(lines)  # noqa: RUF071 - characters are meant
        if len(shared) > len(self.value):
            self.fill(shared)
        elif lines != [self.value]:
            self.post_message(self.Ambiguous(lines))
