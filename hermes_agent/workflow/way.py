"""How a diagnosis is made beyond its request: where steps are kept, who proposes hypotheses, who is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.model.events import SourceWanted

if TYPE_CHECKING:
    from hermes_agent.llm.tool_loop import ResultStore
    from hermes_agent.sessions.store import SessionStore
    from hermes_agent.workflow.investigation import Proposer

Ask = Callable[[SourceWanted], Sequence[Path]]  # the paths of the source, none to go on without it


@dataclass(frozen=True)
class Kept:
    """Where the steps of a diagnosis are kept: a session of a store. After a kill the next call goes on from there."""

    store: SessionStore
    session: str


@dataclass(frozen=True)
class Way:
    """How a diagnosis is made: where its steps are kept, who proposes hypotheses, and who is asked for a source."""

    kept: Kept | None = None
    proposer: Proposer | None = None
    ask: Ask | None = None
    results: ResultStore | None = None  # takes what the tools gave
