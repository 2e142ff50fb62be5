"""The chat: widgets, keys and messages wired together; what is said and drawn is decided elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input, Markdown, Static

from hermes_agent.tui.commands import COMMANDS, Command, completions, run_command
from hermes_agent.tui.controller import Conductor
from hermes_agent.tui.conversation import Conversation
from hermes_agent.tui.glyphs import ASCII, UNICODE, Glyphs
from hermes_agent.tui.messages import CitedMessage
from hermes_agent.tui.panel import SidePanel
from hermes_agent.tui.prompt import Prompt
from hermes_agent.tui.session_protocol import Openings
from hermes_agent.tui.status import StatusLine
from hermes_agent.tui.work import Ended, Happened
from hermes_agent.tui.worker import Worker

TICK_S = 0.2
QUIT_WITHIN_S = 2.0
SIDE_PANEL_FROM_COLUMNS = 100
WELCOME = (
    "Hermes says why a training is slow and what to change first.",
    "No run is open. Type /open PATH with a trace file or a folder of traces, or /demo for the bundled recorded run.",
)


class HermesChat(App[int]):
    """The terminal chat about one run. ``clock`` gives seconds; tests give one that stands still."""

    TITLE = "Hermes"
    CSS_PATH = "chat.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "interrupt", "stop", show=False),
        Binding("ctrl+c", "copy_or_quit", "quit", show=False, priority=True),
        Binding("pageup", "scroll_conversation(-1)", "scroll up", show=False),
        Binding("pagedown", "scroll_conversation(1)", "scroll down", show=False),
    ]

    def __init__(
        self, openings: Openings, glyphs: Glyphs = UNICODE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (SIDE_PANEL_FROM_COLUMNS, "-wide")]
        self._openings = openings
        self._clock = clock
        self._quit_asked_s: float | None = None
        self.conversation = Conversation(glyphs)
        self.panel = SidePanel(glyphs)
        self.prompt = Prompt(completions())
        self.status = StatusLine(glyphs)
        self._sign = Static(glyphs.prompt, id="sign", markup=False)
        self._ascii = glyphs is ASCII
        widgets = (self.conversation, self.panel, self.status)
        self.conductor = Conductor(self, openings, Worker(self, clock), widgets, self.prompt.focus)

    def compose(self) -> ComposeResult:
        """Conversation and side panel, the input and the status line."""
        yield Horizontal(self.conversation, self.panel, id="body")
        yield Horizontal(self._sign, self.prompt, id="entry")
        yield self.status

    def on_mount(self) -> None:
        """Greets, and opens the given run after the first paint."""
        self.set_class(self._ascii, "-ascii")
        self.prompt.focus()
        self.status.tell(model=self._openings.model)
        self.set_interval(TICK_S, self.conductor.tick)
        if self._openings.given is None:
            self.conversation.say(*WELCOME)
        else:
            self.call_after_refresh(self.conductor.open_given)

    def on_unmount(self) -> None:
        """Lets no work outlive the chat."""
        self.conductor.close()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes a command or a question."""
        text = event.value.strip()
        if not text:
            return
        self.prompt.remember(text)
        self.prompt.value = ""
        self.conversation.ask(text)
        if text.startswith("/"):
            self.conductor.guarded(partial(run_command, self.conductor, text))
        else:
            self.conductor.guarded(partial(self.conductor.ask, text))

    def on_key(self, event: events.Key) -> None:
        """What is typed while a message is focused goes to the input."""
        typing = event.is_printable and event.character is not None
        if typing and isinstance(self.screen.focused, CitedMessage) and len(self.screen_stack) == 1:
            self.prompt.go_on(event.character or "")
            event.stop()

    def on_cited_message_citation_opened(self, event: CitedMessage.CitationOpened) -> None:
        """Opens the citation chosen with the keyboard or in a table."""
        self.action_cite(event.identifier)

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        """Says where a link of an answer leads, and does not go there: a model or a run may have put it in."""
        self.conversation.say(f"Not opened: {event.href}")

    async def on_happened(self, message: Happened) -> None:
        """Draws one event of the running work."""
        await self.conductor.happened(message)

    async def on_ended(self, message: Ended) -> None:
        """Shows what the work came to."""
        await self.conductor.ended(message)

    def action_cite(self, identifier: str) -> None:
        """Opens what stands behind an id."""
        self.conductor.guarded(partial(self.conductor.show, identifier))

    def action_interrupt(self) -> None:
        """Stops the running work; when nothing runs, goes back to the input."""
        if not self.conductor.stop():
            self.prompt.focus()

    def action_copy_or_quit(self) -> None:
        """Copies what is selected; otherwise quits when pressed twice."""
        selected = self.screen.get_selected_text() or self.prompt.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            return
        now_s, asked_s = self._clock(), self._quit_asked_s
        if asked_s is not None and now_s - asked_s < QUIT_WITHIN_S:
            self.conductor.leave()
            return
        self._quit_asked_s = now_s
        self.status.tell(hint="Ctrl+C again quits")
        self.set_timer(QUIT_WITHIN_S, partial(self.status.tell, hint=""))

    async def action_quit(self) -> None:
        """Ends the chat."""
        self.conductor.leave()

    def action_scroll_conversation(self, pages: int) -> None:
        """Scrolls the conversation by a page."""
        if pages < 0:
            self.conversation.scroll_page_up(animate=False)
        else:
            self.conversation.scroll_page_down(animate=False)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: the commands of the registry."""
        for command in COMMANDS:
            yield SystemCommand(command.usage, command.help, self._palette_action(command))

    def _palette_action(self, command: Command) -> Callable[[], None]:
        if command.needs_argument:
            return partial(self.prompt.fill, f"/{command.name} ")
        return partial(self.conductor.guarded, partial(run_command, self.conductor, f"/{command.name}"))
