"""Kept conversations: what was said, the list of sessions, one opened again, the text for a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hermes_agent.model.display import counted
from hermes_agent.tui import sections
from hermes_agent.tui.history import Compared, Entry, Memory, Said, as_json, as_markdown
from hermes_agent.tui.messages import AnswerMessage
from hermes_agent.tui.runs import Opened
from hermes_agent.tui.screens import SessionScreen
from hermes_agent.tui.work import Cancelled, ChatSession, Job
from hermes_agent.tui.writing import write_conversation
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.model.events import Emit
    from hermes_agent.model.request import Request
    from hermes_agent.sessions.store import SessionRow, StoredConversation, StoredSession
    from hermes_agent.tui.app import HermesChat
    from hermes_agent.tui.controller import Controller

NOT_KEPT = "Sessions are not kept: the cache is switched off."


class KeptSessions:
    """The conversation so far and the store of sessions; ``memory`` is used by jobs."""

    def __init__(self, app: HermesChat, controller: Controller) -> None:
        self._app, self._controller = app, controller
        self.entries: list[Entry] = []  # of the conversation, to be exported

    @cached_property
    def memory(self) -> Memory:
        """The store, opened at its first use."""
        return Memory(self._app.openings.store)

    def resume(self, identifier: str) -> None:
        """Open the runs of a kept conversation again, then show it as it was."""
        opener = self._app.openings.request
        if opener is None or not self.memory.kept:
            raise UsageError(NOT_KEPT)

        def done(stored: StoredConversation) -> None:
            here = {run.kept: run.name for run in self._controller.runs.open.values()}
            names = {each.id: here.get(each.id) or self._open(each, opener) for each in stored.sessions}
            show = partial(self._show, identifier, stored, names, again=set(names) <= set(here))
            showing = Job(f"resuming {identifier}", lambda _, __: None, lambda _: show(), opens=True)
            self._controller.add(showing)
            self._controller.hold_until(reading, showing)

        reading = Job(f"resuming {identifier}", lambda _, __: self.memory.conversation(identifier), done, opens=True)
        self._app.conversation.say(f"Opening the session {identifier} again; Esc stops it.")
        self._controller.add(reading)

    def _open(self, stored: StoredSession, opener: Callable[[Request], ChatSession]) -> str:
        """Open the run of a kept session again; return its name."""
        name = self._controller.name_for(stored.title)

        def act(emit: Emit, cancelled: Cancelled) -> Opened:
            session = opener(stored.request)
            try:
                questions = tuple(each for each in stored.turns if Compared.of(each) is None)
                session.go_on(questions, stored.records, stored.results)
                session.kept = self.memory.steps(stored.id)
                diagnosis = session.diagnose(emit, cancelled)
                self.memory.add(stored.id, session)
                return Opened(session, diagnosis, stored.id)
            except BaseException:
                session.close()
                raise

        discuss = partial(self._controller.discuss, name, stored.title)
        self._controller.add(Job(f"diagnosing {stored.title}", act, discuss, opens=True, about=name))
        return name

    async def _show(
        self, identifier: str, stored: StoredConversation, names: Mapping[str, str], *, again: bool
    ) -> None:
        """Show what was said and discuss the run in front; ``names`` are those of the runs by session."""
        runs = self._controller.runs.open
        opened = {each.id: names[each.id] for each in stored.sessions if names[each.id] in runs}
        if not opened:
            return
        titles = {each.id: each.title for each in stored.sessions}
        for session, turn in () if again else stored.said:
            to = f"@{names[session]} " if len(names) > 1 and Compared.of(turn) is None else ""
            self._app.conversation.ask(f"{to}{turn.question}")
            if (compared := Compared.of(turn)) is not None:
                section = sections.Section(compared.title, compared.lines)
                self._app.conversation.show_sections((section,), opened.get(session, ""))
                self.entries.append(compared)
                continue
            message = AnswerMessage(opened.get(session, ""))
            await self._app.conversation.mount(message)
            await message.show_turn(turn)
            self.entries.append(Said(names[session], titles[session], turn))
        count = counted(sum(Compared.of(turn) is None for _, turn in stored.said), "question")
        about = f" about {counted(len(names), 'run')}" if len(names) > 1 else ""
        self._app.conversation.say(f"Resumed the session {identifier} with {count}{about}.")
        if len(names) > 1 and stored.front in opened:
            self._controller.switch(opened[stored.front])
        self._app.call_after_refresh(self._app.conversation.follow)  # after the beginning was scrolled into view

    def choose_session(self) -> None:
        """List the kept sessions; Enter on one opens it again."""

        def done(rows: list[SessionRow]) -> None:
            if not rows:
                self._app.conversation.say("No session is kept yet.")
                return
            self._controller.open_screen(SessionScreen(sections.session_table(rows)))

        self._controller.add(Job("reading the kept sessions", lambda _, __: self.memory.sessions(), done))

    def export(self, argument: str) -> None:
        """Write the conversation to a file."""
        if not self.entries:
            raise UsageError("No run was opened yet, so there is no conversation to write.")
        texts = {".md": as_markdown(self.entries), ".json": as_json(self.entries)}
        self._app.conversation.say(write_conversation(texts, argument))
