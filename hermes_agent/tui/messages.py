"""The messages of the conversation, whose text is cleaned, never markup, with citations as links."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from markdown_it import MarkdownIt
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from hermes_agent.evidence.citations import CITATION
from hermes_agent.llm.sanitize import clean, one_line
from hermes_agent.model.display import counted
from hermes_agent.model.events import AnswerDelta, AnswerRejected, Event, Notice, ToolCalled
from hermes_agent.tui.answer_tables import AnswerMarkdown, TableText
from hermes_agent.tui.sections import Section

if TYPE_CHECKING:
    from hermes_agent.model.turn import ToolCallRecord, Turn
    from hermes_agent.session import Answer

IDENTIFIER = re.compile(r"[EACHR]\d+")
ARGUMENT_CHARS = 60  # of one argument in a tool line
CODE = re.compile(r"`([^`\n]+)`")
LINK_STYLE = "$text-accent underline"
CHOSEN_STYLE = "reverse bold"
CODE_STYLE = "$text-warning"
WORKING = "working on it ..."
CHECKED = "written by the model, checked against the evidence"


class Citation(NamedTuple):
    """An id inside a text, from character ``start`` to ``end``."""

    id: str
    start: int
    end: int


def plain(text: str) -> Content:
    """Return outside text as it may be shown: no control or escape characters, no markup."""
    return Content(clean(text))


def prose(text: str) -> Content:
    """Return a sentence of ours: names in back quotes are set off."""
    content = plain(text)
    for match in CODE.finditer(content.plain):
        content = content.stylize(CODE_STYLE, *match.span())
    return content


def citations(text: str) -> Iterator[Citation]:
    """Yield the ids cited in a text, in order; ``[E1, C2]`` holds two."""
    for group in CITATION.finditer(text):
        for match in IDENTIFIER.finditer(text, *group.span()):
            yield Citation(match.group(), match.start(), match.end())


def linked(content: Content, found: Iterable[Citation], about: str) -> Content:
    """Return the content with these citations as links that open their records in the run ``about``."""
    for each in found:
        content = content.stylize(LINK_STYLE, each.start, each.end)
        click = f"app.cite({each.id!r}, {about!r})"
        content = content.stylize(Style.from_meta({"@click": click}), each.start, each.end)
    return content


class CitedMessage(VerticalGroup, can_focus=False):
    """A message whose citations can be chosen with the left and right arrow and opened with Enter.

    ``about`` names the open run whose ids it cites; without one its ids are no links.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "choose(-1)", "previous citation", show=False),
        Binding("right", "choose(1)", "next citation", show=False),
        Binding("enter", "open", "open the citation", show=False),
    ]

    @dataclass
    class CitationOpened(Message):
        """The request to show the record behind an id of the run ``about``."""

        identifier: str
        about: str

    def __init__(self, *children: Widget, about: str, classes: str = "") -> None:
        super().__init__(*children, classes=f"message {classes}".strip())
        self.about = about
        self._places: list[tuple[Static, Content, Citation]] = []
        self._chosen = 0

    def on_mount(self) -> None:
        """Find the citations."""
        self.find_citations()

    def find_citations(self) -> None:
        """Make the citations in all texts of the message links, and the handles of its tool calls."""
        self._places, self._chosen = [], 0
        for text in self.query(Static):
            if not self.about or not isinstance(text.content, Content):
                continue
            handle = (Citation(text.call.handle, 0, len(text.call.handle)),) if isinstance(text, ToolLine) else ()
            if found := handle or tuple(citations(text.content.plain)):
                content = linked(text.content, found, self.about)
                text.update(content)
                self._places += [(text, content, each) for each in found]
        self.can_focus = bool(self._places)

    def on_table_text_redrawn(self, event: TableText.Redrawn) -> None:
        """Find the citations again, whose places differ at a new width."""
        event.stop()
        self.find_citations()

    @property
    def cited(self) -> tuple[str, ...]:
        """The ids cited, in order."""
        return tuple(citation.id for _, _, citation in self._places)

    def on_focus(self) -> None:
        """Highlight the citation that Enter would open."""
        self._mark(chosen=True)

    def on_blur(self) -> None:
        """Remove the highlight."""
        self._mark(chosen=False)

    def action_choose(self, step: int) -> None:
        """Choose the next or the previous citation."""
        self._mark(chosen=False)
        self._chosen = (self._chosen + step) % max(len(self._places), 1)
        self._mark(chosen=True)

    def action_open(self) -> None:
        """Open the chosen citation."""
        if self._places:
            self.post_message(self.CitationOpened(self._places[self._chosen][2].id, self.about))

    def _mark(self, *, chosen: bool) -> None:
        if self._places:
            text, content, (_, start, end) = self._places[self._chosen]
            text.update(content.stylize(CHOSEN_STYLE, start, end) if chosen else content, layout=False)


class SectionMessage(CitedMessage):
    """A part of the diagnosis: a title, sentences, and perhaps a picture after them."""

    def __init__(self, section: Section, about: str, picture: Widget | None = None, below: Sequence[str] = ()) -> None:
        parts: list[Widget] = [Static(plain(section.title), classes="title")] if section.title else []
        parts += map(_sentence, section.paragraphs)
        parts += [*([picture] if picture else []), *map(_sentence, below)]
        super().__init__(*parts, about=about, classes=f"section {section.kind}")


def _sentence(text: str) -> Static:
    """A sentence of ours; two leading spaces indent it."""
    classes = "sentence under" if text.startswith("  ") else "sentence"
    return Static(prose(text.strip()), classes=classes)


class ToolLine(Static):
    """One tool call in a line: handle, name and arguments, size, time; the sentence of a failure is open below it."""

    def __init__(self, call: ToolCallRecord) -> None:
        self.call = call
        super().__init__(tool_line(call), classes="tool failed" if call.error else "tool")


def tool_line(call: ToolCallRecord) -> Content:
    """``R3 find_events(rank=3, step=12): 10 rows, 3,120 characters, 0.4 s``."""
    given = ", ".join(f"{name}={_argument(value)}" for name, value in call.arguments.items())
    by = "" if call.by == "template" else f" by the {call.by}"
    took = f"{call.seconds:.1f} s"
    if call.error:
        return plain(f"{call.handle} {call.name}({given}){by}: failed after {took}\n  {call.error}")
    rows = f"{counted(call.rows, 'row')}, " if call.rows else ""
    return plain(f"{call.handle} {call.name}({given}){by}: {rows}{counted(call.size, 'character')}, {took}")


def _argument(value: object) -> str:
    text = one_line(str(value), ARGUMENT_CHARS)
    return f'"{text}"' if isinstance(value, str) else text


class ToolMessage(CitedMessage):
    """The tool calls made for a diagnosis, one line each."""

    def __init__(self, about: str) -> None:
        super().__init__(about=about, classes="calls")

    def add(self, call: ToolCallRecord) -> None:
        """Show one more call."""
        self.mount(ToolLine(call))
        self.call_after_refresh(self.find_citations)


class PlainMessage(CitedMessage):
    """A few lines shown as they are: a hint, an error, the person's question."""

    def __init__(self, lines: Iterable[str | Content], kind: str = "hint", about: str = "") -> None:
        texts = [Static(line if isinstance(line, Content) else prose(line)) for line in lines]
        super().__init__(*texts, about=about, classes=kind)


def markdown_parser() -> MarkdownIt:
    """Return a parser for tables and emphasis, but no HTML, no images and no links made of addresses."""
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def without_link_marks(text: str) -> str:
    """Return the text with its citations escaped, so that Markdown does not take them for its own links."""
    return CITATION.sub(lambda match: re.sub(r"([\[\]])", r"\\\1", match.group()), text)


class AnswerMessage(CitedMessage):
    """The answer to a question: its progress, then the checked text. ``text`` is that Markdown."""

    def __init__(self, about: str) -> None:
        self._markdown = AnswerMarkdown(parser_factory=markdown_parser, open_links=False)
        self._note = Static(plain(WORKING), classes="note")
        self.text = ""
        super().__init__(self._markdown, self._note, about=about, classes="answer")

    def add_call(self, call: ToolCallRecord) -> None:
        """Show a tool call made for the answer, above its text."""
        self.mount(ToolLine(call), before=self._markdown)
        self.call_after_refresh(self.find_citations)

    async def hear(self, event: Event) -> None:
        """Show one event of the work on the answer."""
        match event:
            case AnswerDelta(text):
                await self.write(text)
            case ToolCalled(call):
                self.add_call(call)
            case Notice(text) | AnswerRejected(text):
                self.say(text)
            case _:
                pass

    async def write(self, text: str) -> None:
        """Add a checked paragraph of a model; the finished answer replaces them."""
        self.text += clean(text)
        await self._markdown.update(without_link_marks(self.text))

    def say(self, text: str) -> None:
        """Show the state of the work under the text."""
        self._note.update(plain(text))

    async def finish(self, answer: Answer) -> None:
        """Show the answer, with its notes and its author."""
        self.text = clean(answer.text)
        await self._show(answer.by, answer.notes)

    async def _show(self, by: str, given: Sequence[str]) -> None:
        await self._markdown.update(without_link_marks(self.text))
        notes = (*given, CHECKED) if by == "model" else tuple(given)
        self.say("\n".join(notes))
        self._note.display = bool(notes)
        self.call_after_refresh(self.find_citations)

    async def show_turn(self, turn: Turn) -> None:
        """Show a turn of a conversation that was kept."""
        for call in turn.calls:
            await self.mount(ToolLine(call), before=self._markdown)
        self.text = clean(turn.answer)
        await self._show(turn.by, turn.notes)


@dataclass(frozen=True)
class Glyphs:
    """Signs by meaning; ``parts`` has one sign for each part of a step, in the order of ``PART_TITLES``.

    ``columns`` fill a cell from below and ``shades`` darken it, each from least to most; ``axis`` and ``mark_long``,
    ``mark_traced`` belong to the picture of step times.
    """

    found: str
    clean: str
    cannot_answer: str
    running: str
    done: str
    waiting: str
    prompt: str
    dot: str
    parts: str
    columns: str
    shades: str
    axis: str
    mark_long: str
    mark_traced: str
    refuted: str

    def mark(self, status: str) -> str:
        """The sign of a check's outcome."""
        return {"found": self.found, "clean": self.clean}.get(status, self.cannot_answer)


UNICODE = Glyphs("▲", "✓", "?", "▸", "✓", "·", "❯", "·", "█▓▒▚░▁", " ▁▂▃▄▅▆▇█", "·░▒▓█", "│", "▲", "─", "✗")
ASCII = Glyphs("!", "+", "?", ">", "+", ".", ">", "-", "#x=d:.", " .:#", ".:=*#", "|", "^", "=", "x")


def glyphs_for(encoding: str | None, environment: Mapping[str, str]) -> Glyphs:
    """ASCII where the terminal cannot be trusted with more, or where ``HERMES_DX_ASCII`` is set."""
    plain = environment.get("HERMES_DX_ASCII") or environment.get("TERM") in ("dumb", "vt100")
    wide = (encoding or "").lower().replace("-", "").replace("_", "") in ("utf8", "utf16", "utf8sig")
    return ASCII if plain or not wide else UNICODE
