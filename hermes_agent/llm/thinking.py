"""Thinking that a model writes into its answer, told apart from the answer."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_agent.llm.model import ReasoningDelta, TextDelta

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkingSplitter:
    """Splits a leading ``<think>...</think>`` off a streamed answer.

    Only the start of an answer can open it: the same words later on are the answer's own.
    """

    def __init__(self) -> None:
        self._state = "start"
        self._held = ""

    def feed(self, text: str) -> Iterator[TextDelta | ReasoningDelta]:
        """The pieces that are certain by now; a tag cut in two is held back."""
        self._held += text
        if self._state == "start":
            self._decide()
        if self._state == "thinking":
            yield from self._think()
        if self._state == "answer" and self._held:
            held, self._held = self._held, ""
            yield TextDelta(held)

    def end(self) -> Iterator[TextDelta | ReasoningDelta]:
        """What was held back when the stream ended."""
        held, self._held = self._held, ""
        if held:
            yield ReasoningDelta(held) if self._state == "thinking" else TextDelta(held)

    def _decide(self) -> None:
        begun = self._held.lstrip()
        if begun.startswith(_OPEN):
            self._state, self._held = "thinking", begun.removeprefix(_OPEN)
        elif not _OPEN.startswith(begun):
            self._state = "answer"

    def _think(self) -> Iterator[ReasoningDelta]:
        thought, tag, rest = self._held.partition(_CLOSE)
        if tag:
            self._state, self._held = "answer", rest.lstrip()
        else:
            keep = _tail_of_tag(thought)
            thought, self._held = thought[: len(thought) - keep], thought[len(thought) - keep :]
        if thought:
            yield ReasoningDelta(thought)


def _tail_of_tag(text: str) -> int:
    """How many of the last characters may be the start of the closing tag."""
    return next((size for size in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:size])), 0)
