"""Work that takes a while: run in a thread, told to the app as messages, interruptible at every event."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING, TypeAlias

from textual.message import Message

from tools.errors import HermesError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.events import Emit, Event
    from hermes_agent.session import Answer, Shown
    from hermes_agent.tui.session_protocol import ChatSession

LOG = logging.getLogger("hermes_dx.tui")


@dataclass(frozen=True)
class Opened:
    """A run was diagnosed; it is now the one under discussion."""

    title: str
    session: ChatSession
    diagnosis: Diagnosis


@dataclass(frozen=True)
class Answered:
    """A question was answered."""

    answer: Answer


@dataclass(frozen=True)
class ShownAgain:
    """What stands behind an id was looked up."""

    shown: Shown


@dataclass(frozen=True)
class Failed:
    """The work could not be done; the text is one sentence for people."""

    text: str


@dataclass(frozen=True)
class Stopped:
    """The work was interrupted."""


Outcome: TypeAlias = Opened | Answered | ShownAgain | Failed | Stopped


class Interrupted(Exception):
    """Raised inside the work when it was asked to stop."""


@dataclass(frozen=True, eq=False)
class Job:
    """Something to do; ``act`` gets where to send events and how to learn that it shall stop.

    ``opens`` says that it makes a diagnosis, whose progress the side panel shows.
    """

    title: str
    act: Callable[[Emit, Callable[[], bool]], Outcome]
    opens: bool = False
    stop: Flag = field(default_factory=Flag)


class Happened(Message):
    """An event of the running work."""

    def __init__(self, job: Job, event: Event) -> None:
        super().__init__()
        self.job = job
        self.event = event


class Ended(Message):
    """The work is over."""

    def __init__(self, job: Job, outcome: Outcome) -> None:
        super().__init__()
        self.job = job
        self.outcome = outcome


def perform(job: Job, post: Callable[[Message], object]) -> None:
    """Does the work in the calling thread. Whatever happens, exactly one ``Ended`` is posted."""

    def emit(event: Event) -> None:
        if job.stop.is_set():
            raise Interrupted
        post(Happened(job, event))

    outcome: Outcome
    try:
        outcome = job.act(emit, job.stop.is_set)
    except HermesError as error:
        outcome = Failed(str(error))
    except Interrupted:
        outcome = Stopped()
    except Exception as error:  # the outermost boundary of this thread: everything else is a defect of ours
        LOG.exception("the work %s failed", job.title)
        outcome = Failed(
            f"Internal error, {type(error).__name__}: {error}; run again as hermes-dx --debug ... and report it."
        )
    post(Ended(job, Stopped() if job.stop.is_set() else outcome))
