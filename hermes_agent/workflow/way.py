"""How a diagnosis is made beyond its request: where steps are kept, and what a person is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.model.events import SourceWanted

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from hermes_agent.llm.tool_loop import ResultStore
    from hermes_agent.model.request import Request
    from hermes_agent.sessions.store import SessionStore
    from hermes_agent.workflow.workspace import Workspace


@dataclass(frozen=True)
class Kept:
    """Where the steps of a diagnosis are kept: a session of a store. After a kill the next call goes on from there."""

    store: SessionStore
    session: str


@dataclass
class Question:
    """The one question that a diagnosis may put to a person, and what it needs to go on after the answer.

    ``wanted`` is set where a source would decide. ``answer``: its paths, none to go on without it; None while nobody
    has answered. ``request``: that of the diagnosis, with the sources that were attached.
    """

    wanted: SourceWanted | None = None
    answer: Sequence[Path] | None = None
    request: Request | None = None
    workspace: Workspace | None = None  # of the diagnosis that waits, with its run and what its checks found
    saver: BaseCheckpointSaver[str] | None = None  # its state, where no session keeps it


@dataclass(frozen=True)
class Way:
    """How a diagnosis is made: where its steps are kept, and what a person is asked."""

    kept: Kept | None = None
    question: Question | None = None
    results: ResultStore | None = None  # takes what the tools gave
