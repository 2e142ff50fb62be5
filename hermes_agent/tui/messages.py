"""The messages of the conversation. Those that cite can be focused, and open what stands behind a citation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from hermes_agent.tui.prose import CHOSEN_STYLE, Citation, citations, linked, plain, prose
from hermes_agent.tui.sections import Section


@dataclass(frozen=True)
class _Place:
    """A citation inside one of the message's texts."""

    text: Static
    content: Content
    citation: Citation


class CitedMessage(VerticalGroup, can_focus=False):
    """A message whose citations can be chosen with the left and right arrow and opened with Enter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "choose(-1)", "previous citation", show=False),
        Binding("right", "choose(1)", "next citation", show=False),
        Binding("enter", "open", "open the citation", show=False),
    ]

    class CitationOpened(Message):
        """A person wants to see what stands behind an id."""

        def __init__(self, identifier: str) -> None:
            super().__init__()
            self.identifier = identifier

    def __init__(self, *children: Widget, classes: str = "") -> None:
        super().__init__(*children, classes=f"message {classes}".strip())
        self._places: tuple[_Place, ...] = ()
        self._chosen = 0

    def on_mount(self) -> None:
        """Collects the citations once the texts are there."""
        self.collect()

    def collect(self) -> None:
        """Finds the citations in all texts of the message and makes them links."""
        places: list[_Place] = []
        for text in self.query(Static):
            content = text.content
            if not isinstance(content, Content):
                continue
            found = tuple(citations(content.plain))
            if found:
                content = linked(content)
                text.update(content)
                places.extend(_Place(text, content, each) for each in found)
        self._places = tuple(places)
        self._chosen = 0
        self.can_focus = bool(places)

    @property
    def cited(self) -> tuple[str, ...]:
        """The ids cited, in order."""
        return tuple(place.citation.id for place in self._places)

    def on_focus(self) -> None:
        """Shows which citation Enter would open."""
        self._mark(chosen=True)

    def on_blur(self) -> None:
        """Hides it again."""
        self._mark(chosen=False)

    def action_choose(self, step: int) -> None:
        """Chooses the next or the previous citation."""
        if self._places:
            self._mark(chosen=False)
            self._chosen = (self._chosen + step) % len(self._places)
            self._mark(chosen=True)

    def action_open(self) -> None:
        """Opens the chosen citation."""
        if self._places:
            self.post_message(self.CitationOpened(self._places[self._chosen].citation.id))

    def _mark(self, *, chosen: bool) -> None:
        if not self._places:
            return
        place = self._places[self._chosen]
        content = place.content
        if chosen:
            content = content.stylize(CHOSEN_STYLE, place.citation.start, place.citation.end)
        place.text.update(content, layout=False)


class SectionMessage(CitedMessage):
    """A part of the diagnosis: a title, sentences, and perhaps a picture between them."""

    def __init__(self, section: Section, picture: Widget | None = None) -> None:
        parts: list[Widget] = [Static(plain(section.title), classes="title")] if section.title else []
        parts += [_sentence(text) for text in section.paragraphs]
        super().__init__(*parts, *([picture] if picture else []), classes=f"section {section.kind}")


def _sentence(text: str) -> Static:
    """A sentence; two leading spaces put it under the one before."""
    classes = "sentence under" if text.startswith("  ") else "sentence"
    return Static(prose(text.strip()), classes=classes)


class PlainMessage(CitedMessage):
    """A few lines that are shown as they are: a hint, an error, a table."""

    def __init__(self, lines: Iterable[str | Content], kind: str = "hint") -> None:
        texts = [Static(line if isinstance(line, Content) else prose(line)) for line in lines]
        super().__init__(*texts, classes=kind)


class QuestionMessage(PlainMessage):
    """What the person typed."""

    def __init__(self, text: str) -> None:
        super().__init__([plain(text)], "question")
