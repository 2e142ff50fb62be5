"""Background work of the chat: a job runs in a thread, posts messages and can be interrupted."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from textual.message import Message

from hermes_agent.tui.history import OpenStore
from tools.errors import HermesError

if TYPE_CHECKING:
    from hermes_agent.confirm import Confirmation, RunOf
    from hermes_agent.evidence.session_ids import CitedRecord
    from hermes_agent.locations.places import Place
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.events import Emit, Event
    from hermes_agent.model.request import Request
    from hermes_agent.model.turn import Turn
    from hermes_agent.session import Answer, Shown
    from hermes_agent.workflow.way import Kept
    from tools.agent_tools.result import Result
    from tools.views.profile import Profile

LOG = logging.getLogger("hermes_dx.tui")

Cancelled: TypeAlias = Callable[[], bool]
Done = TypeVar("Done")


class ChatSession(Protocol):
    """One run under discussion; every method may take long and is called from one thread at a time."""

    @property
    def request(self) -> Request:
        """The request that it was opened with."""

    kept: Kept | None  # where the steps of a diagnosis are kept

    def diagnose(self, emit: Emit, cancelled: Cancelled) -> Diagnosis:
        """Return the diagnosis of the run."""

    def ask(self, question: str, emit: Emit, cancelled: Cancelled) -> Answer:
        """Return an answer to free text about the run."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The questions asked so far with their answers."""

    @property
    def cited(self) -> tuple[CitedRecord, ...]:
        """The record of every id that was given out."""

    @property
    def results(self) -> Mapping[str, str]:
        """The results of tools by handle."""

    def go_on(
        self, turns: tuple[Turn, ...], records: tuple[CitedRecord, ...] = (), results: Mapping[str, str] | None = None
    ) -> None:
        """Continue a conversation that was kept."""

    def attach(self, paths: tuple[Path, ...], emit: Emit, cancelled: Cancelled) -> Diagnosis:
        """Return the diagnosis with more sources of the same run."""

    def skip(self) -> None:
        """Go on without the source that was asked for."""

    def show(self, identifier: str) -> Shown:
        """Return the record behind ``E7``, ``C2`` or ``A1``; a figure is measured again."""

    def call(self, name: str, arguments: Mapping[str, object], emit: Emit, cancelled: Cancelled) -> Result:
        """Return the result of a tool on the run."""

    def profile(self, emit: Emit, cancelled: Cancelled) -> Profile:
        """Return the run itself."""

    def result(self, handle: str) -> str:
        """Return the whole result of a tool call, as text."""

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
    thresholds: Mapping[str, float] = field(default_factory=dict)
    request: Callable[[Request], ChatSession] | None = None  # opens a kept session again
    store: OpenStore | None = None  # the kept sessions; None keeps none
    resume: str | None = None  # the kept session to begin with, "" to choose one
    notes: tuple[str, ...] = ()  # on the settings, shown first
    draft: Callable[[Confirmation, RunOf], tuple[str, ...]] | None = None  # writes the cases of a confirmed cause


class Interrupted(Exception):
    """Raised inside a job that was asked to stop."""


@dataclass(frozen=True, eq=False)
class Job(Generic[Done]):
    """``act`` runs in the thread, ``done`` takes its result in the app.

    ``opens`` marks a diagnosis; ``about`` names the run whose tools are called, "" where it has no name.
    """

    title: str
    act: Callable[[Emit, Cancelled], Done]
    done: Callable[[Done], Awaitable[None] | None]
    opens: bool = False
    about: str = ""
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
        reason = f"Internal error, {type(error).__name__}: {error}"
        ended.error = f"{reason}; run again as hermes-dx --debug ... and report it."
    post(Ended(job) if job.stop.is_set() else ended)
