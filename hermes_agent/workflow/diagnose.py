"""One call from a request to a diagnosis, with events on the way."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from case_library.stand_ins import Functions, forget, stand_ins
from hermes_agent.model.diagnosis import NOT_LOOKED_UP, Diagnosis
from hermes_agent.model.events import DiagnosisReady, Emit, Event, NotStored, Stage, StageStarted
from hermes_agent.model.request import Request
from hermes_agent.workflow import stored
from tools.errors import HermesError
from tools.leftovers import private_folder, remove_leftovers

if TYPE_CHECKING:
    from hermes_agent.workflow.workspace import Workspace

LOG = logging.getLogger("hermes_dx.workflow")

Writer = Callable[[Diagnosis, Emit], Diagnosis]


def diagnose(request: Request, emit: Emit, writer: Writer | None = None) -> Diagnosis:
    """The diagnosis of a run: stored when nothing has changed since, else made by the workflow.

    ``writer`` puts the answer into other words (a model's); what is stored is always the answer from templates.
    Raises ``InputError`` when a source cannot be read or holds no training run, ``NotComparableError`` when the
    baseline cannot be compared with the run.
    """
    begun = time.perf_counter()
    diagnosis, cached = _made_or_stored(request, emit)
    if writer is not None:
        diagnosis = writer(diagnosis, emit)
    emit(DiagnosisReady(diagnosis, time.perf_counter() - begun, cached))
    return diagnosis


def _made_or_stored(request: Request, emit: Emit) -> tuple[Diagnosis, bool]:
    """The diagnosis from templates, and whether it was stored before."""
    if request.cache_dir is None:
        return _run(request, emit)[0], False
    with suppress(OSError):  # said when the diagnosis cannot be stored
        private_folder(request.cache_dir)
    remove_leftovers(request.cache_dir)
    name = stored.key(request)
    kept = None if request.summaries else stored.find(request.cache_dir, name)  # what is missing there is made
    if kept is not None and not kept.recall_note.startswith(NOT_LOOKED_UP):  # the case library may work now
        stored.remember(request.cache_dir, name, request)
        return kept, True
    diagnosis, transient = _run(request, emit)
    if transient:
        emit(NotStored("A trace that was left out may be read the next time, so this answer was not stored."))
    elif not stored.keep(request.cache_dir, name, request, diagnosis):
        emit(NotStored(f"{request.cache_dir}: nothing can be stored there; check its permissions and the space left."))
    return diagnosis, False


def _run(request: Request, emit: Emit) -> tuple[Diagnosis, bool]:
    """The diagnosis, and whether a trace was left out of it that may be read the next time."""
    from hermes_agent.workflow.workspace import Workspace

    emit(StageStarted(Stage.LOAD))
    workspace = Workspace(request, emit)
    workspace.prepare()  # loading begins here, while the heavy libraries are imported
    _settle_environment(os.environ)
    try:
        result = _result(workspace, emit)
    finally:
        workspace.close()
    return Diagnosis.model_validate(result["diagnosis"]), workspace.transient


def _result(workspace: Workspace, emit: Emit) -> dict[str, object]:
    """The last state of the workflow, which runs without what LangGraph imports and this program never calls."""
    with stand_ins(*NEVER_CALLED, known=UNTRACED) as missing:
        try:
            return _stream(workspace, emit)
        except HermesError:
            raise
        except Exception:  # another version of LangGraph may ask its clients for more than a stand-in has
            if not missing:
                raise
            LOG.warning("the workflow failed without %s and is run with them", " and ".join(missing), exc_info=True)
    forget("langgraph", "langchain_core", "hermes_agent.workflow.graph")
    return _stream(workspace, emit)


def _stream(workspace: Workspace, emit: Emit) -> dict[str, object]:
    """The last state of the workflow; its events are passed on."""
    from hermes_agent.workflow.graph import build, config

    result: dict[str, object] = {}
    for mode, chunk in build().stream({}, config=config(), context=workspace, stream_mode=["custom", "values"]):  # type: ignore[call-overload]
        if mode == "custom":
            event: Event = chunk
            emit(event)
        else:
            result = chunk
    return result


# The clients of two services, the one that they send with, and the old form of records.
NEVER_CALLED = ("langsmith", "langgraph_sdk", "requests", "pydantic.v1")

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
