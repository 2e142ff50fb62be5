"""The input line, with the history of what was typed and completion of commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.suggester import SuggestFromList
from textual.widgets import Input

LONGEST = 4000  # characters; a longer paste is cut
KEPT = 200


def completion(typed: str, words: Sequence[str]) -> str | None:
    """The longest beginning that all words starting with ``typed`` share, if it is longer than ``typed``."""
    matching = [word for word in words if word.startswith(typed)]
    if not typed.startswith("/") or not matching:
        return None
    shared = matching[0]
    for word in matching[1:]:
        while not word.startswith(shared):
            shared = shared[:-1]
    return shared if len(shared) > len(typed) else None


class Prompt(Input):
    """Up and Down walk through what was typed before; Tab completes a command."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "earlier", "earlier", show=False),
        Binding("down", "later", "later", show=False),
        Binding("tab", "complete", "complete", show=False),
    ]

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(
            id="prompt",
            compact=True,
            placeholder="Ask about the run, or / for commands",
            suggester=SuggestFromList(words),
            max_length=LONGEST,
            select_on_focus=False,
        )
        self._words = tuple(words)
        self._history: list[str] = []
        self._at = 0
        self._draft = ""

    def remember(self, text: str) -> None:
        """Adds a line to the history; repeating the last one adds nothing."""
        if not self._history or self._history[-1] != text:
            self._history = [*self._history, text][-KEPT:]
        self._at = len(self._history)
        self._draft = ""

    def fill(self, text: str) -> None:
        """Puts a text in to be completed by the person."""
        self.value = text
        self.cursor_position = len(text)
        self.focus()

    def go_on(self, character: str) -> None:
        """Takes a character that was typed elsewhere, and all that follow."""
        self.focus()
        self.insert_text_at_cursor(character)

    def action_earlier(self) -> None:
        """The line typed before this one."""
        if self._at == len(self._history):
            self._draft = self.value
        self._show(max(self._at - 1, 0))

    def action_later(self) -> None:
        """The line typed after this one, and at last the unfinished one."""
        self._show(min(self._at + 1, len(self._history)))

    def action_complete(self) -> None:
        """Completes a command, or moves on to the next widget."""
        longer = completion(self.value, self._words)
        if longer is None:
            self.screen.focus_next()
        else:
            self.fill(longer)

    def _show(self, place: int) -> None:
        self._at = place
        self.value = self._history[place] if place < len(self._history) else self._draft
        self.cursor_position = len(self.value)
