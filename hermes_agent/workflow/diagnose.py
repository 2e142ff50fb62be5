"""One call from a request to a diagnosis, with events on the way."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from case_library.stand_ins import Functions, forget, stand_ins
from hermes_agent.model.diagnosis import NOT_LOOKED_UP, Diagnosis
from hermes_agent.model.events import DiagnosisReady, DiagnosisWorded, Emit, Event, NotStored, Stage, StageStarted
from hermes_agent.model.request import Request
from hermes_agent.workflow import stored
from tools.errors import HermesError
from tools.leftovers import private_folder, remove_leftovers

if TYPE_CHECKING:
    from hermes_agent.sessions.store import SessionStore
    from hermes_agent.workflow.investigation import Proposer
    from hermes_agent.workflow.workspace import Workspace


LOG = logging.getLogger("hermes_dx.workflow")

Writer = Callable[[Diagnosis, Emit], Diagnosis]


@dataclass(frozen=True)
class Kept:
    """Where the steps of a diagnosis are kept: a session of a store. After a kill the next call goes on from there."""

    store: SessionStore
    session: str


def diagnose(
    request: Request,
    emit: Emit,
    writer: Writer | None = None,
    kept: Kept | None = None,
    proposer: Proposer | None = None,
) -> Diagnosis:
    """The diagnosis of a run: stored when nothing has changed since, else made by the workflow.

    ``writer`` adds a model's words, after the answer from templates was emitted; only that answer is stored.
    ``kept``: keep each step, and go on after the last one that an earlier call finished. ``proposer`` adds a model's
    hypotheses, which are tested like all others; with one the answer is always made, and not stored.
    Raises ``InputError`` when a source cannot be read or holds no training run, ``NotComparableError`` when the
    baseline cannot be compared with the run.
    """
    begun = time.perf_counter()
    diagnosis, cached = _made_or_stored(request, emit, kept, proposer)
    emit(DiagnosisReady(diagnosis, time.perf_counter() - begun, cached))
    if writer is None:
        return diagnosis
    worded = writer(diagnosis, emit)
    emit(DiagnosisWorded(worded))
    return worded


def _made_or_stored(
    request: Request, emit: Emit, steps: Kept | None, proposer: Proposer | None
) -> tuple[Diagnosis, bool]:
    """The diagnosis from templates, and whether it was stored before."""
    if request.cache_dir is None or proposer is not None:
        return _run(request, emit, steps, proposer)[0], False
    with suppress(OSError):  # said when the diagnosis cannot be stored
        private_folder(request.cache_dir)
    remove_leftovers(request.cache_dir)
    name = stored.key(request)
    kept = None if request.summaries else stored.find(request.cache_dir, name)  # what is missing there is made
    if kept is not None and not kept.recall_note.startswith(NOT_LOOKED_UP):  # the case library may work now
        stored.remember(request.cache_dir, name, request)
        if steps is not None:
            steps.store.set_pending(steps.session, "")
        return kept, True
    diagnosis, transient = _run(request, emit, steps, key=name)
    if transient:
        emit(NotStored("A trace that was left out may be read the next time, so this answer was not stored."))
    elif not stored.keep(request.cache_dir, name, request, diagnosis):
        emit(NotStored(f"{request.cache_dir}: nothing can be stored there; check its permissions and the space left."))
    return diagnosis, False


def _run(
    request: Request, emit: Emit, steps: Kept | None, proposer: Proposer | None = None, key: str = ""
) -> tuple[Diagnosis, bool]:
    """The diagnosis, and whether a trace was left out of it that may be read the next time."""
    from hermes_agent.workflow.workspace import Workspace

    emit(StageStarted(Stage.LOAD))
    workspace = Workspace(request, emit, proposer)
    workspace.prepare()  # loading begins here, while the heavy libraries are imported
    _settle_environment(os.environ)
    try:
        result = _result(workspace, emit, steps, key)
    finally:
        workspace.close()
    if steps is not None:
        steps.store.set_pending(steps.session, "")
    return Diagnosis.model_validate(result["diagnosis"]), workspace.transient


def _result(workspace: Workspace, emit: Emit, steps: Kept | None, key: str) -> dict[str, object]:
    """The last state of the workflow, which runs without what LangGraph imports and this program never calls."""
    with stand_ins(*NEVER_CALLED, known=UNTRACED) as missing:
        try:
            return _stream(workspace, emit, steps, key)
        except HermesError:
            raise
        except Exception:  # another version of LangGraph may ask its clients for more than a stand-in has
            if not missing:
                raise
            LOG.warning("the workflow failed without %s and is run with them", " and ".join(missing), exc_info=True)
    forget("langgraph", "langchain_core", "hermes_agent.workflow.graph", "hermes_agent.workflow.investigation")
    return _stream(workspace, emit, steps, key)


def _stream(workspace: Workspace, emit: Emit, steps: Kept | None, key: str) -> dict[str, object]:
    """The last state of the workflow; its events are passed on."""
    from hermes_agent.workflow.graph import build, config

    saver = None if steps is None else steps.store.saver()
    graph, bounds = build(saver), config("" if steps is None else steps.session)
    begin: dict[str, object] | None = {"key": key}
    more: dict[str, object] = {}
    if steps is not None and saver is not None:
        known = graph.get_state(bounds)
        if known.tasks and known.values.get("key") == key:
            begin = None  # go on
        else:
            saver.delete_thread(steps.session)
        steps.store.set_pending(steps.session, steps.store.UNFINISHED)
        more["durability"] = "sync"  # a step that is finished is kept before the next one begins
    result: dict[str, object] = {}
    for mode, chunk in graph.stream(begin, config=bounds, context=workspace, stream_mode=["custom", "values"], **more):  # type: ignore[call-overload]
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
