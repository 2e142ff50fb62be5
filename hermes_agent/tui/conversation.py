"""The scrolling conversation: it stays at its end until a person scrolls away."""

from __future__ import annotations

from collections.abc import Iterable

from textual.containers import VerticalScroll
from textual.content import Content

from hermes_agent.report.diagnosis import Diagnosis
from hermes_agent.tui import sections
from hermes_agent.tui.answer import AnswerMessage
from hermes_agent.tui.breakdown import BreakdownBars
from hermes_agent.tui.glyphs import Glyphs
from hermes_agent.tui.messages import PlainMessage, QuestionMessage, SectionMessage


class Conversation(VerticalScroll, can_focus=False):
    """All messages, oldest first."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="conversation")
        self._glyphs = glyphs
        self._follow = True

    def watch_virtual_size(self) -> None:
        """Anchors to the end only once there is more than fits: Textual puts shorter content out of place."""
        if not self.container_size.height:
            return
        if self.max_scroll_y == 0:
            self.anchor(False)
            self.scroll_to(y=0, animate=False, force=True)
        elif self._follow and not self.is_anchored:
            self.anchor()

    def follow(self, wanted: bool = True) -> None:
        """Keeps the end in view from now on, or stays where it is."""
        self._follow = wanted
        self.anchor(wanted and self.max_scroll_y > 0)

    def ask(self, text: str) -> None:
        """Shows what the person typed."""
        self.mount(QuestionMessage(text))
        self.follow()

    def say(self, *lines: str | Content, kind: str = "hint") -> None:
        """Shows a few lines: a hint, the answer of a command."""
        self.mount(PlainMessage(lines, kind))

    def fail(self, sentence: str) -> None:
        """Shows an error."""
        self.say(sentence, kind="error")

    def begin_answer(self) -> AnswerMessage:
        """An empty answer that is filled while the work goes on."""
        message = AnswerMessage()
        self.mount(message)
        return message

    def show_sections(self, chosen: Iterable[sections.Section]) -> None:
        """Shows parts of a diagnosis."""
        self.mount_all([SectionMessage(section) for section in chosen])

    def show_diagnosis(self, diagnosis: Diagnosis) -> None:
        """Shows the whole diagnosis, the answer first, and keeps its beginning in view."""
        means = [row for row in diagnosis.breakdown if row.step is None]
        first = SectionMessage(sections.headline(diagnosis))
        title = sections.Section("Where a step goes, mean over steps", ())
        bars = SectionMessage(title, BreakdownBars(means, self._glyphs))
        rest = [
            *sections.comparison(diagnosis),
            *sections.causes(diagnosis),
            *sections.advice(diagnosis),
            *sections.cases(diagnosis),
            *sections.checks(diagnosis),
            *sections.notes(diagnosis),
        ]
        self.mount_all([first, bars, *(SectionMessage(section) for section in rest)])
        self.follow(False)
        self.call_after_refresh(self.scroll_to_widget, first, animate=False, top=True)
