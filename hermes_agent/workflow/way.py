"""How a diagnosis is made beyond its request: where steps are kept, and what a person is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.model.events import SourceWanted
from tools.errors import HermesError, InputError, UsageError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from hermes_agent.llm.tool_loop import ResultStore
    from hermes_agent.model.diagnosis import WantedSourceRecord
    from hermes_agent.model.request import Request
    from hermes_agent.sessions.store import SessionStore
    from hermes_agent.workflow.own_process import OwnProcess
    from hermes_agent.workflow.workspace import Workspace


class StepsNotKeptError(HermesError):
    """The steps of a diagnosis cannot be kept: the file of sessions cannot be used, or the session is gone."""


@dataclass(frozen=True)
class Kept:
    """Where the steps of a diagnosis are kept: a session of a store. After a kill the next call goes on from there.

    Every method raises StepsNotKeptError where they cannot be kept there.
    """

    store: SessionStore
    session: str

    @property
    def waits(self) -> bool:
        """True where the diagnosis waits for the answer of a person."""
        with _named():
            return self.store.pending(self.session) not in ("", self.store.UNFINISHED)

    def saver(self) -> BaseCheckpointSaver[str]:
        """What keeps the state of the workflow."""
        with _named():
            return self.store.saver()

    def begin(self) -> None:
        """Keep that the diagnosis is unfinished."""
        with _named():
            self.store.set_pending(self.session, self.store.UNFINISHED)

    def wait(self, question: str) -> None:
        """Keep the question that the diagnosis waits for."""
        with _named():
            self.store.set_pending(self.session, question)

    def drop(self) -> None:
        """Drop the steps, of a diagnosis that goes on without what it waits for."""
        with _named():
            self.store.set_pending(self.session, "")

    def finish(self, request: Request) -> None:
        """Drop the steps, and keep what the diagnosis was made of."""
        with _named():
            self.store.set_request(self.session, request)
            self.store.set_pending(self.session, "")


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except (InputError, UsageError) as error:
        raise StepsNotKeptError(str(error)) from error


@dataclass
class Question:
    """The one question that a diagnosis may put to a person, and what it needs to go on after the answer.

    ``wanted`` is set where a source would decide. ``answer``: its paths, none to go on without it; None while nobody
    has answered. ``refused``: why the last answer added nothing; the question stays. ``request``: that of the
    diagnosis, with the sources that were attached. ``key``: what the diagnosis that waits depends on, see
    ``workflow.stored``; where the files have changed since, it begins again.
    """

    wanted: SourceWanted | None = None
    answer: Sequence[Path] | None = None
    refused: str = ""
    request: Request | None = None
    workspace: Workspace | None = None  # of the diagnosis that waits, with its run and what its checks found
    saver: BaseCheckpointSaver[str] | None = None  # its state, where no session keeps it
    key: str = ""

    def about(self, key: str) -> None:
        """Forget the diagnosis that waits where the files have changed since it was asked."""
        if self.key != key:
            self.workspace = self.saver = self.wanted = None


def source_wanted(record: WantedSourceRecord) -> SourceWanted:
    """The question for a source, in words."""
    question = f"Are there {record.source} of this run? They would show whether it is {record.decides}."
    return SourceWanted(question, record.source, tuple(record.ranks), record.decides)


@dataclass(frozen=True)
class Way:
    """How a diagnosis is made: where its steps are kept, what a person is asked, and in which process."""

    kept: Kept | None = None
    question: Question | None = None
    results: ResultStore | None = None  # takes what the tools gave
    process: OwnProcess | None = None  # None: this one
