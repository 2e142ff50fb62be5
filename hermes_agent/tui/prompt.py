"""The input line: history, completion and the list of suggestions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.message import Message
from textual.widgets import Input

from hermes_agent.llm.sanitize import one_line
from hermes_agent.tui.suggestions import Suggestion, Suggestions

SIGNS = ("/", "@")  # a line that begins with one is completed
OPEN_ENDS = (" ", "/")  # after these something follows
LONGEST = 4000  # characters; a longer paste is cut
REMEMBERED = 200  # lines


class Prompt(Input):
    """Up and Down walk through the typed lines or the suggestions, which Enter chooses; Tab completes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close_suggestions", "close the list", show=False),
        Binding("up", "walk(-1)", "earlier", show=False),
        Binding("down", "walk(1)", "later", show=False),
        Binding("tab", "complete", "complete", show=False),
    ]

    @dataclass
    class Ambiguous(Message):
        """Several completions are possible, or none."""

        lines: Sequence[str]

    def __init__(self, suggest: Callable[[str], Sequence[Suggestion]], suggestions: Suggestions) -> None:
        super().__init__(
            id="prompt",
            compact=True,
            placeholder="Ask about the run, or / for commands",
            max_length=LONGEST,
            select_on_focus=False,
        )
        self._suggest, self._suggestions = suggest, suggestions
        self._filled = ""  # the text that was not typed: no list opens for it
        self._history: list[str] = []
        self._at, self._draft = 0, ""

    def remember(self, text: str) -> None:
        """Add a line to the history; repeating the last one adds nothing."""
        if self._history[-1:] != [text]:
            self._history = [*self._history, text][-REMEMBERED:]
        self._at, self._draft = len(self._history), ""

    def fill(self, text: str) -> None:
        """Replace the text, to be completed by the person."""
        self._filled = text
        self._suggestions.close()
        self.value = text
        self.cursor_position = len(text)
        self.focus()

    def go_on(self, character: str) -> None:
        """Take a character that was typed elsewhere, and all that follow."""
        self.focus()
        self.insert_text_at_cursor(character)

    def _on_paste(self, event: Paste) -> None:
        """Take all lines of a paste as one, as far as there is room; Textual takes the first line alone."""
        event.prevent_default()
        event.stop()
        room = LONGEST - len(self.value) + len(self.selected_text)
        self.replace(one_line(event.text, LONGEST)[:room], *self.selection)

    def action_walk(self, step: int) -> None:
        """Choose in the open list; else show an earlier or later typed line, after the last the unfinished one."""
        if self._suggestions.display:
            self._suggestions.move(step)
            return
        if self._at == len(self._history):
            self._draft = self.value
        self._at = min(max(self._at + step, 0), len(self._history))
        self.fill([*self._history, self._draft][self._at])

    def watch_value(self, value: str) -> None:
        """Offer what may follow while a person types."""
        if value != self._filled:
            self._filled = ""
            self._suggestions.offer(self._suggest(value) if value.startswith(SIGNS) else ())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Esc to the app where no list is open."""
        return self._suggestions.display if action == "close_suggestions" else True

    def action_close_suggestions(self) -> None:
        """Close the list; it opens again with the next character."""
        self._suggestions.close()

    async def action_submit(self) -> None:
        """Take the chosen suggestion, or send the line as it is."""
        chosen = self._suggestions.chosen
        if chosen is not None and chosen.line.strip() != self.value.strip():
            self.take(chosen.line)
            return
        self._suggestions.close()
        await super().action_submit()

    def take(self, line: str) -> None:
        """Put a suggestion into the input, and offer what follows it."""
        self.fill(line)
        if line.endswith(OPEN_ENDS):
            self._suggestions.offer(self._suggest(line))

    def action_complete(self) -> None:
        """Complete as far as the suggestions agree; any text without one moves on to the next widget."""
        if not self.value.startswith(SIGNS):
            self.screen.focus_next()
            return
        found = self._suggest(self.value)
        lines = [each.line for each in found]
        shared = os.path.commonprefix(lines)  # noqa: RUF071 - characters are meant
        if len(shared) > len(self.value):
            self.fill(shared)
            self._suggestions.offer(() if len(lines) == 1 and not shared.endswith(OPEN_ENDS) else self._suggest(shared))
        elif lines != [self.value]:
            self.post_message(self.Ambiguous(lines))
