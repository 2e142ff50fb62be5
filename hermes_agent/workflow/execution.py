"""One diagnosis made in this process: the workflow run on a workspace, without what its libraries never call."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from case_library.stand_ins import Functions, forget, stand_ins
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit, Notice, Stage, StageStarted
from hermes_agent.model.request import Request
from hermes_agent.workflow.way import StepsNotKeptError, Way
from tools.errors import HermesError

if TYPE_CHECKING:
    from hermes_agent.workflow.workspace import Workspace

LOG = logging.getLogger("hermes_dx.workflow")
LONGEST_REASON = 300


@dataclass(frozen=True)
class Made:
    """A diagnosis from templates; ``request`` has the sources that a person has attached.

    ``transient``: a trace was left out that may be read the next time. ``workspace``: what it was made with, closed;
    None where another process made it.
    """

    diagnosis: Diagnosis
    request: Request
    transient: bool
    workspace: Workspace | None = None


def made_here(request: Request, emit: Emit, way: Way, key: str) -> Made:
    """Make the diagnosis; ``key``: what it depends on."""
    from hermes_agent.workflow.workspace import Workspace

    emit(StageStarted(Stage.LOAD))
    workspace = (way.question and way.question.workspace) or Workspace(request, emit)
    workspace.emit, workspace.results = emit, way.results or workspace.results
    workspace.prepare()  # loading begins here, while the heavy libraries are imported
    _settle_environment(os.environ)
    try:
        result = _result(workspace, emit, way, key)
    except (sqlite3.Error, StepsNotKeptError) as error:  # the answer is worth more than its steps
        if way.kept is None:
            raise
        emit(not_kept(error))
        way = replace(way, kept=None)
        result = _result(workspace, emit, way, key)
    finally:
        workspace.close()
    if way.question is not None:
        way.question.request = workspace.request
    diagnosis = Diagnosis.model_validate(result["diagnosis"])
    return Made(diagnosis, workspace.request, workspace.transient, workspace)


def not_kept(error: Exception) -> Notice:
    """The notice that a diagnosis goes on without keeping its steps."""
    return Notice(printable(f"The steps of this diagnosis are not kept: {error}", LONGEST_REASON))


def _result(workspace: Workspace, emit: Emit, way: Way, key: str) -> dict[str, object]:
    """The last state of the workflow, which runs without what LangGraph imports and this program never calls."""
    with stand_ins(*NEVER_CALLED, known=UNTRACED) as missing:
        try:
            from hermes_agent.workflow.runner import run

            return run(workspace, emit, way, key)
        except (HermesError, sqlite3.Error):
            raise
        except Exception:  # another version of LangGraph may ask its clients for more than a stand-in has
            if not missing:
                raise
            LOG.warning("the workflow failed without %s and is run with them", " and ".join(missing), exc_info=True)
    forget("langgraph", "langchain_core", *(f"hermes_agent.workflow.{name}" for name in WITH_LANGGRAPH))
    from hermes_agent.workflow.runner import run

    return run(workspace, emit, way, key)


WITH_LANGGRAPH = ("graph", "investigation", "runner")  # modules that import it

# The clients of two services, the one that they send with, the old form of records, and streams of events that a
# caller of LangChain may ask for in place of ``stream``.
NEVER_CALLED = (
    *("langsmith", "langgraph_sdk", "requests", "pydantic.v1"),
    *("langgraph.stream", "langchain_core.tracers.event_stream", "langchain_core.tracers.log_stream"),
)

# What LangGraph asks of LangSmith in every run: whether the run is traced, which it never is.
UNTRACED: Functions = {
    "langsmith.run_helpers": {"get_tracing_context": lambda: dict.fromkeys(("parent", "tags", "metadata"))},
    "langsmith.utils": {"tracing_is_enabled": lambda: False},
}


TRACING = (
    *("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"),
    *("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER"),  # of a form that is gone: LangChain refuses to run where one is set
)


def _settle_environment(environment: Mapping[str, str]) -> None:
    """What LangGraph and its clients read: stored states hold plain values only, and nothing is traced away."""
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    for name in TRACING:
        if environment.get(name):
            os.environ[name] = "false"
