"""Background work of the chat: jobs run one at a time in a thread, post messages and can be interrupted."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from textual.app import App
from textual.message import Message

from tools.errors import HermesError

if TYPE_CHECKING:
    from hermes_agent.locations.places import Place
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.events import Emit, Event
    from hermes_agent.session import Answer, Shown

LOG = logging.getLogger("hermes_dx.tui")

Cancelled: TypeAlias = Callable[[], bool]
Result = TypeVar("Result")


class ChatSession(Protocol):
    """One run under discussion; every method may take long and is called from one thread at a time."""

    def diagnose(self, emit: Emit) -> Diagnosis:
        """Return the diagnosis of the run."""

    def ask(self, question: str, emit: Emit, cancelled: Cancelled) -> Answer:
        """Return an answer to free text about the run."""

    def show(self, identifier: str) -> Shown:
        """Return the record behind ``E7``, ``C2`` or ``A1``; a figure is measured again."""

    def close(self) -> None:
        """Release the files of the run."""


@dataclass(frozen=True)
class Openings:
    """The ways to open a session, called by jobs only: they import heavy packages. ``given`` opens the run named."""

    path: Callable[[tuple[Place, ...]], ChatSession]
    demo: Callable[[], ChatSession]
    given: Callable[[], ChatSession] | None = None
    given_title: str = ""
    model: str | None = None


class Interrupted(Exception):
    """Raised inside a job that was asked to stop."""


@dataclass(frozen=True, eq=False)
class Job(Generic[Result]):
    """``act`` runs in the thread, ``done`` takes its result in the app. ``opens`` marks a diagnosis."""

    title: str
    act: Callable[[Emit, Cancelled], Result]
    done: Callable[[Result], Awaitable[None] | None]
    opens: bool = False
    stop: Flag = field(default_factory=Flag)


@dataclass
class Happened(Message):
    """An event of the running job."""

    job: Job[Any]
    event: Event


@dataclass
class Ended(Message):
    """The end of a job: with its result to take, an error for people, or neither when it was interrupted."""

    job: Job[Any]
    take: Callable[[], Awaitable[None] | None] | None = None
    error: str = ""


def perform(job: Job[Any], post: Callable[[Message], object]) -> None:
    """Run the job in the calling thread. Whatever happens, exactly one ``Ended`` is posted."""

    def emit(event: Event) -> None:
        if job.stop.is_set():
            raise Interrupted
        post(Happened(job, event))

    ended = Ended(job)
    try:
        ended.take = partial(job.done, job.act(emit, job.stop.is_set))
    except HermesError as error:
        ended.error = str(error)
    except Interrupted:
        pass
    except Exception as error:  # the outermost boundary of this thread: everything else is a defect of ours
        LOG.exception("the job %s failed", job.title)
        ended.error = (
            f"Internal error, {type(error).__name__}: {error}; run again as hermes-dx --debug ... and report it."
        )
    post(Ended(job) if job.stop.is_set() else ended)


class Worker:
    """The queue of jobs of an app; used from the app's own thread only."""

    def __init__(self, app: App[int], clock: Callable[[], float]) -> None:
        self._app = app
        self._clock = clock
        self._waiting: deque[Job[Any]] = deque()
        self._started_s = 0.0
        self.job: Job[Any] | None = None

    def add(self, job: Job[Any]) -> None:
        """Run the job now, or after those before it."""
        self._waiting.append(job)
        self._next()

    def ended(self, job: Job[Any]) -> None:
        """Start the next job after this one."""
        if self.job is job:
            self.job = None
        self._next()

    def stop(self) -> tuple[Job[Any], ...]:
        """Ask the running job to stop and return the waiting ones, which are dropped."""
        if self.job is not None:
            self.job.stop.set()
        dropped = tuple(self._waiting)
        self._waiting.clear()
        return dropped

    @property
    def elapsed_s(self) -> float:
        """Seconds since the running job started."""
        return self._clock() - self._started_s

    @property
    def doing(self) -> str:
        """The running job in words; empty when there is none."""
        if self.job is None:
            return ""
        return "stopping" if self.job.stop.is_set() else self.job.title

    def _next(self) -> None:
        if self.job is not None or not self._waiting:
            return
        self.job = self._waiting.popleft()
        self._started_s = self._clock()
        post: Callable[[Message], bool] = self._app.post_message
        self._app.run_worker(partial(perform, self.job, post), thread=True, exit_on_error=False, name=self.job.title)
