"""The kinds of work the chat gives to its worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from textual.app import App
from textual.message import Message

from hermes_agent.model.events import Emit
from hermes_agent.tui.session_protocol import ChatSession
from hermes_agent.tui.work import Answered, Job, Opened, ShownAgain, perform


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


class Worker:
    """The queue of jobs of an app; used from the app's own thread only."""

    def __init__(self, app: App[int], clock: Callable[[], float]) -> None:
        self._app = app
        self._clock = clock
        self._waiting: deque[Job] = deque()
        self._begun_s = 0.0
        self.job: Job | None = None

    def add(self, job: Job) -> None:
        """Does the job now, or after those before it."""
        self._waiting.append(job)
        self._next()

    def over(self, job: Job) -> None:
        """The job ended; the next one begins."""
        if self.job is job:
            self.job = None
        self._next()

    def stop(self) -> tuple[Job, ...]:
        """Asks the running job to stop and forgets those waiting, which are returned."""
        if self.job is not None:
            self.job.stop.set()
        dropped = tuple(self._waiting)
        self._waiting.clear()
        return dropped

    @property
    def elapsed_s(self) -> float:
        """Seconds since the running job began."""
        return self._clock() - self._begun_s

    @property
    def doing(self) -> str:
        """What runs now, in words; empty when nothing does."""
        if self.job is None:
            return ""
        return "stopping" if self.job.stop.is_set() else self.job.title

    def _next(self) -> None:
        if self.job is not None or not self._waiting:
            return
        self.job = self._waiting.popleft()
        self._begun_s = self._clock()
        post: Callable[[Message], bool] = self._app.post_message
        self._app.run_worker(partial(perform, self.job, post), thread=True, exit_on_error=False, name=self.job.title)
