"""The conversation: its messages and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget

from hermes_agent.report.pictures.data import known_ranks
from hermes_agent.tui import sections
from hermes_agent.tui.messages import CitedMessage, Glyphs, PlainMessage, SectionMessage, ToolLine, ToolMessage, plain
from hermes_agent.tui.pictures.draw import stacked
from hermes_agent.tui.pictures.registry import Drawn

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.turn import ToolCallRecord


class Picture(Widget):
    """A picture of figures, drawn again for every width."""

    DEFAULT_CSS = "Picture { height: auto; width: 1fr; }"

    def __init__(self, draw: Callable[[int, Glyphs], Content], glyphs: Glyphs) -> None:
        super().__init__()
        self._draw, self._glyphs = draw, glyphs

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Return the number of lines at a width."""
        return self._draw(width, self._glyphs).plain.count("\n") + 1

    def render(self) -> Content:
        """Return the picture at the present width."""
        return self._draw(self.content_size.width, self._glyphs)


class PictureMessage(SectionMessage):
    """A picture under its title, and what it says in words."""

    def __init__(self, drawn: Drawn, about: str, glyphs: Glyphs) -> None:
        super().__init__(sections.Section(drawn.title, ()), about, Picture(drawn.draw, glyphs), below=drawn.sentences)
        self.drawn = drawn


class Conversation(VerticalScroll, can_focus=False):
    """All messages, oldest first; ``about`` names the open run whose ids a message cites, "" for none."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="conversation")
        self._glyphs = glyphs
        self._follow = True

    def watch_virtual_size(self) -> None:
        """Find the place again once the container, too, has its new size."""
        self.call_after_refresh(self._keep_place)

    def _keep_place(self) -> None:
        """Anchor to the end only once there is more than fits: Textual puts shorter content out of place."""
        if not self.container_size.height:
            return
        if self.max_scroll_y == 0:
            self.anchor(False)
            self.scroll_to(y=0, animate=False, force=True)
        elif self._follow and not self.is_anchored:
            self.anchor()

    def follow(self, wanted: bool = True) -> None:
        """Keep the end in view from now on, or stay here."""
        self._follow = wanted
        self.anchor(wanted and self.max_scroll_y > 0)

    def ask(self, text: str) -> None:
        """Show a line that the person typed."""
        self.mount(PlainMessage([plain(text)], "question"))
        self.follow()

    def say(self, *lines: str | Content, kind: str = "hint", about: str = "") -> None:
        """Show a few lines: a hint, the answer of a command, an error."""
        self.mount(PlainMessage(lines, kind, about))

    def show_sections(self, chosen: Iterable[sections.Section], about: str) -> None:
        """Show parts of a diagnosis."""
        self.mount_all([SectionMessage(section, about) for section in chosen])

    def show_picture(self, drawn: Drawn, about: str) -> None:
        """Show a picture with its title and the sentences under it."""
        self.mount(PictureMessage(drawn, about, self._glyphs))
        self.follow()

    def show_call(self, call: ToolCallRecord, about: str) -> None:
        """Show a tool call of a diagnosis as one line; those that follow each other share a message."""
        last = self.children[-1] if self.children else None
        message = last if isinstance(last, ToolMessage) and last.about == about else ToolMessage(about)
        if message is not last:
            self.mount(message)
        message.add(call)

    def tool_behind(self, handle: str, about: str) -> str:
        """The tool whose call on the run has that handle; "a tool" where its line is not in the conversation."""
        lines = (line for each in self.query(CitedMessage) if each.about == about for line in each.query(ToolLine))
        return next((line.call.name for line in lines if line.call.handle == handle), "a tool")

    def show_diagnosis(self, diagnosis: Diagnosis, about: str) -> None:
        """Show the whole diagnosis, the answer first, and keep its beginning in view."""
        means = [row for row in diagnosis.breakdown if row.step is None]
        first = SectionMessage(sections.headline(diagnosis), about)
        title = sections.Section("Time per step, mean over steps", ())
        bars = SectionMessage(title, about, Picture(partial(stacked, means, known_ranks(diagnosis)), self._glyphs))
        rest = [SectionMessage(section, about) for view in sections.DETAILS for section in view(diagnosis)]
        self.mount_all([first, bars])
        self.follow(False)
        self.call_after_refresh(self._add_details, first, bars, rest)

    def _add_details(self, first: Widget, above: Widget, details: list[SectionMessage]) -> None:
        """Show the rest in a drawing of its own: all at once held the keys up for 50 ms."""
        self.mount_all(details, after=above)
        if not self._follow:
            self.call_after_refresh(self.scroll_to_widget, first, animate=False, top=True)
