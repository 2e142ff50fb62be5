"""The kinds of work the chat gives to its worker."""

from __future__ import annotations

from collections.abc import Callable

from hermes_agent.tui.port import ChatSession
from hermes_agent.tui.work import Answered, Job, Opened, ShownAgain
from hermes_agent.workflow.events import Emit


def opening(title: str, opener: Callable[[], ChatSession], before: ChatSession | None = None) -> Job:
    """Opens a run and diagnoses it; the session ``before`` is closed when that has worked, the new one when not."""

    def act(emit: Emit, _: Callable[[], bool]) -> Opened:
        session = opener()
        try:
            diagnosis = session.diagnose(emit)
        except BaseException:
            session.close()
            raise
        if before is not None:
            before.close()
        return Opened(title, session, diagnosis)

    return Job(f"diagnosing {title}", act, opens=True)


def question(session: ChatSession, text: str) -> Job:
    """Answers a question."""

    def act(emit: Emit, cancelled: Callable[[], bool]) -> Answered:
        return Answered(session.ask(text, emit, cancelled))

    return Job("answering", act)


def lookup(session: ChatSession, identifier: str) -> Job:
    """Looks up what stands behind an id."""

    def act(_: Emit, __: Callable[[], bool]) -> ShownAgain:
        return ShownAgain(session.show(identifier))

    return Job(f"measuring {identifier} again", act)
