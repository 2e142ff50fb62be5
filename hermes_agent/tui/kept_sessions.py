"""Kept conversations: what was said, the list of sessions, one opened again, the text for a file."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hermes_agent.model.display import counted
from hermes_agent.tui import sections
from hermes_agent.tui.history import Memory, Said, as_json, as_markdown
from hermes_agent.tui.messages import AnswerMessage
from hermes_agent.tui.runs import Opened, name_for
from hermes_agent.tui.screens import SessionScreen
from hermes_agent.tui.work import Cancelled, Job
from hermes_agent.tui.writing import write_conversation
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.model.events import Emit
    from hermes_agent.sessions.store import SessionRow, StoredSession
    from hermes_agent.tui.app import HermesChat
    from hermes_agent.tui.controller import Controller

NOT_KEPT = "Sessions are not kept: the cache is switched off."


class KeptSessions:
    """The conversation so far and the store of sessions; ``memory`` is used by jobs."""

    def __init__(self, app: HermesChat, controller: Controller) -> None:
        self._app, self._controller = app, controller
        self.said: list[Said] = []

    @cached_property
    def memory(self) -> Memory:
        """The store, opened at its first use."""
        return Memory(self._app.openings.store)

    def resume(self, identifier: str) -> None:
        """Open a kept session again, with its conversation as it was."""
        opener = self._app.openings.request
        if opener is None or not self.memory.kept:
            raise UsageError(NOT_KEPT)

        def act(emit: Emit, cancelled: Cancelled) -> tuple[Opened, StoredSession]:
            stored = self.memory.open(identifier)
            session = opener(stored.request)
            try:
                session.go_on(stored.turns, stored.records, stored.results)
                session.kept = self.memory.steps(identifier)
                diagnosis = session.diagnose(emit)
                self.memory.add(identifier, session)
                return Opened(session, diagnosis, identifier), stored
            except BaseException:
                session.close()
                raise

        async def done(found: tuple[Opened, StoredSession]) -> None:
            opened, stored = found
            name = name_for(stored.title, self._controller.runs.open)
            self._controller.discuss(name, stored.title, opened)
            for turn in stored.turns:
                self._app.conversation.ask(turn.question)
                message = AnswerMessage(name)
                await self._app.conversation.mount(message)
                await message.show_turn(turn)
                self.said.append(Said(name, stored.title, turn))
            count = counted(len(stored.turns), "question")
            self._app.conversation.say(f"Resumed the session {identifier} with {count}.")
            self._app.call_after_refresh(self._app.conversation.follow)  # after the beginning was scrolled into view

        self._app.conversation.say(f"Opening the session {identifier} again; Esc stops it.")
        self._controller.add(Job(f"resuming {identifier}", act, done, opens=True))

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
        if not self.said:
            raise UsageError("Nothing was asked yet, so there is no conversation to write; /report writes a diagnosis.")
        texts = {".md": as_markdown(self.said), ".json": as_json(self.said)}
        self._app.conversation.say(write_conversation(texts, argument))
