"""The chat: widgets, keys and messages wired together; no logic of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input, Markdown, OptionList, Static

from hermes_agent.tui.commands import COMMANDS, Command, last_name, run_command, suggestions
from hermes_agent.tui.controller import Controller
from hermes_agent.tui.conversation import Conversation
from hermes_agent.tui.messages import ASCII, UNICODE, CitedMessage, Glyphs
from hermes_agent.tui.panel import SidePanel, StatusLine
from hermes_agent.tui.prompt import Prompt
from hermes_agent.tui.screens import Overlay, SessionScreen
from hermes_agent.tui.suggestions import Suggestions
from hermes_agent.tui.work import Cancelled, Ended, Happened, Job, Openings
from tools.errors import HermesError
from tools.knowledge.taxonomy import causes

if TYPE_CHECKING:
    from hermes_agent.model.events import Emit

TICK_S = 0.2
QUIT_WITHIN_S = 2.0
HINT_S = 5.0
SIDE_PANEL_FROM_COLUMNS = 100
FRAMES_FROM_LINES = 16  # below, screens fill the terminal without a frame
WELCOME = (
    "Hermes shows why a training is slow and what to change first.",
    "No run is open. Type /open PATH with a trace file or a folder of traces, or /demo for the bundled recorded run.",
)


class HermesChat(App[int]):
    """The terminal chat. ``load`` reads the settings, in a thread after the first paint, since that imports much.

    ``greets``: it is known before that no run will be opened. ``clock`` gives seconds; tests give one that does not
    move. ``failure`` is why the chat could not begin.
    """

    TITLE = "Hermes"
    CSS_PATH = "chat.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "interrupt", "stop", show=False),
        Binding("ctrl+c", "copy_or_quit", "quit", show=False, priority=True),
        Binding("pageup", "scroll_conversation(-1)", "scroll up", show=False),
        Binding("pagedown", "scroll_conversation(1)", "scroll down", show=False),
        Binding("shift+pageup", "scroll_panel(-1)", "scroll the panel up", show=False),
        Binding("shift+pagedown", "scroll_panel(1)", "scroll the panel down", show=False),
    ]

    def __init__(
        self,
        load: Callable[[], Openings],
        glyphs: Glyphs = UNICODE,
        clock: Callable[[], float] = time.monotonic,
        *,
        greets: bool = False,
    ) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (SIDE_PANEL_FROM_COLUMNS, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (FRAMES_FROM_LINES, "-high")]
        self._load, self._greets = load, greets
        self._early: list[Callable[[], None]] | None = []  # typed before the settings were read
        self.failure: HermesError | None = None
        self._clock = clock
        self._quit_asked_s: float | None = None
        self.conversation = Conversation(glyphs)
        self.panel = SidePanel(glyphs)
        self.suggestions = Suggestions()
        self.prompt = Prompt(partial(suggestions, self), self.suggestions)
        self.status = StatusLine(glyphs)
        self._glyphs = glyphs
        self.controller: Controller = Controller(self, clock)

    def compose(self) -> ComposeResult:
        """Draw conversation and side panel, the input and the status line."""
        yield Horizontal(self.conversation, self.panel, id="body")
        yield self.suggestions
        yield Horizontal(Static(self._glyphs.prompt, id="sign", markup=False), self.prompt, id="entry")
        yield self.status

    @cached_property
    def openings(self) -> Openings:
        """The ways to open a run; the first use reads the settings."""
        return self._load()

    def on_mount(self) -> None:
        """Greet; the settings are read after the first paint."""
        self.set_class(self._glyphs is ASCII, "-ascii")
        self.prompt.focus()
        self.set_interval(TICK_S, self.controller.tick)
        if self._greets:
            self.conversation.say(*WELCOME)
        self.call_after_refresh(self.controller.add, Job("starting", self._read, self._begin))

    def _read(self, emit: Emit, cancelled: Cancelled) -> HermesError | None:
        """Read the settings, and the names of causes that the panel shows; return why they cannot be used."""
        try:
            _ = self.openings, causes()
        except HermesError as error:
            return error
        return None

    def _begin(self, failure: HermesError | None) -> None:
        """Open the given run or session, then act on what was typed before; end where the settings cannot be used."""
        if failure is not None:
            self.failure = failure
            self.exit(failure.exit_code)
            return
        opening = self.openings
        self.status.model, self.status.elapsed_s = opening.model or "", None
        if opening.notes:
            self.conversation.say(*opening.notes)
        if opening.resume is not None:
            kept = self.controller.kept
            self.controller.guarded(partial(kept.resume, opening.resume) if opening.resume else kept.choose_session)
        elif opening.given is not None:
            self.controller.open(opening.given_title, opening.given)
        elif not self._greets:
            self.conversation.say(*WELCOME)
        early, self._early = self._early or [], None
        for act in early:
            self.controller.guarded(act)

    def on_unmount(self) -> None:
        """Stop all work."""
        self.controller.close()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run a command or answer a question."""
        text = event.value.strip()
        if not text:
            return
        self.prompt.remember(text)
        self.prompt.value = ""
        self.conversation.ask(text)
        act = partial(partial(run_command, self) if text.startswith("/") else self.controller.ask, text)
        if self._early is None:
            self.controller.guarded(act)
        else:
            self._early.append(act)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take a suggestion that was clicked."""
        self.prompt.take(self.suggestions.line_at(event.option_index))

    def on_prompt_ambiguous(self, event: Prompt.Ambiguous) -> None:
        """Show the possible completions for a moment."""
        self._hint("  ".join(map(last_name, event.lines)) or "no completion")

    def on_key(self, event: events.Key) -> None:
        """Send keys typed on a focused message to the input; say how to come back from a screen, which takes none."""
        typing = event.is_printable and event.character is not None
        if typing and isinstance(self.screen.focused, CitedMessage) and len(self.screen_stack) == 1:
            self.prompt.go_on(event.character or "")
            event.stop()
        elif typing and isinstance(self.screen, Overlay):
            self._hint("Esc goes back")

    def on_cited_message_citation_opened(self, event: CitedMessage.CitationOpened) -> None:
        """Open the citation chosen with the keyboard or in a table."""
        self.action_cite(event.identifier, event.about)

    def on_session_screen_chosen(self, event: SessionScreen.Chosen) -> None:
        """Open a kept session again."""
        self.controller.guarded(partial(self.controller.kept.resume, event.identifier))

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        """Show where a link of an answer leads, and do not open it: a model or a run may have put it in."""
        self.conversation.say(f"Not opened: {event.href}")

    async def on_happened(self, message: Happened) -> None:
        """Draw one event of the running job."""
        await self.controller.happened(message)

    async def on_ended(self, message: Ended) -> None:
        """Show the result of a job."""
        await self.controller.ended(message)

    def action_cite(self, identifier: str, about: str) -> None:
        """Open the record behind an id of the open run ``about``."""
        self.controller.guarded(partial(self.controller.show, identifier, about))

    def action_interrupt(self) -> None:
        """Stop the running work; when nothing runs, go back to the input."""
        if not self.controller.stop():
            self.prompt.focus()

    def action_copy_or_quit(self) -> None:
        """Copy the selection; without one, quit when pressed twice."""
        selected = self.screen.get_selected_text() or self.prompt.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            return
        now_s, asked_s = self._clock(), self._quit_asked_s
        if asked_s is not None and now_s - asked_s < QUIT_WITHIN_S:
            self.controller.leave()
            return
        self._quit_asked_s = now_s
        self._hint("Ctrl+C again quits", QUIT_WITHIN_S)

    def _hint(self, text: str, seconds: float = HINT_S) -> None:
        def clear() -> None:
            if self.status.hint == text:
                self.status.hint = ""

        self.status.hint = text
        self.set_timer(seconds, clear)

    async def action_quit(self) -> None:
        """End the chat."""
        self.controller.leave()

    def action_scroll_conversation(self, pages: int) -> None:
        """Scroll the conversation by a page."""
        scroll = self.conversation.scroll_page_up if pages < 0 else self.conversation.scroll_page_down
        scroll(animate=False)

    def action_scroll_panel(self, pages: int) -> None:
        """Scroll causes and hypotheses by a page."""
        self.panel.scroll_findings(pages)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the commands of the registry for the palette."""
        for command in COMMANDS:
            yield SystemCommand(command.usage, command.help, self._palette_action(command))

    def _palette_action(self, command: Command) -> Callable[[], None]:
        if command.needs_argument:
            return partial(self.prompt.fill, f"/{command.name} ")
        return partial(self.controller.guarded, partial(run_command, self, f"/{command.name}"))
