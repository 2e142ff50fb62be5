"""The message that answers a question: streamed while a model writes, then replaced by what was verified."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from textual.content import Content
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownStream

from hermes_agent.evidence.numbers import CITATION
from hermes_agent.llm.sanitize import clean
from hermes_agent.tui.messages import CitedMessage
from hermes_agent.tui.prose import plain

if TYPE_CHECKING:
    from hermes_agent.session import Answer

WORKING = "working on it ..."
INTERRUPTED = "interrupted"


def markdown_parser() -> MarkdownIt:
    """Tables and emphasis, but no HTML, no images and no addresses turned into links."""
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def without_link_marks(text: str) -> str:
    """Citations written so that Markdown does not take them for links of its own."""
    return CITATION.sub(lambda match: re.sub(r"([\[\]])", r"\\\1", match.group()), text)


class AnswerMessage(CitedMessage):
    """One answer. ``text`` is what stands there, as Markdown."""

    def __init__(self) -> None:
        self._markdown = Markdown(parser_factory=markdown_parser, open_links=False)
        self._note = Static(plain(WORKING), classes="note")
        self._stream: MarkdownStream | None = None
        self.text = ""
        super().__init__(self._markdown, self._note, classes="answer")

    async def write(self, piece: str) -> None:
        """Adds what the model wrote next; it is not verified yet."""
        if self._stream is None:
            self._stream = Markdown.get_stream(self._markdown)
        self.text += clean(piece)
        await self._stream.write(clean(piece))

    def say(self, text: str) -> None:
        """Says under the text what is being done."""
        self._note.update(plain(text))

    async def reject(self, reason: str) -> None:
        """Takes back what was streamed."""
        await self._stop()
        self.text = ""
        await self._markdown.update("")
        self.say(f"The draft did not stand up to the evidence: {reason}")

    async def finish(self, answer: Answer) -> None:
        """Shows the verified answer, with its notes and who wrote it."""
        await self._stop()
        self.text = clean(answer.text)
        await self._markdown.update(without_link_marks(self.text))
        by = ("written by the model, checked against the evidence",) if answer.by == "model" else ()
        self._tell(*answer.notes, *by)
        self.call_after_refresh(self.collect)

    async def break_off(self, why: str = INTERRUPTED) -> None:
        """Says that no answer will come; what was streamed stays, marked as unverified."""
        await self._stop()
        self._tell(f"{why}; the text above is not verified" if self.text else why)

    def _tell(self, *notes: str) -> None:
        self._note.update(plain("\n".join(notes)) if notes else Content())
        self._note.display = bool(notes)

    async def _stop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.stop()
