"""One call from a request to a diagnosis, with events on the way."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from case_library.stand_ins import Functions, forget, stand_ins
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import NOT_LOOKED_UP, Diagnosis
from hermes_agent.model.events import DiagnosisReady, DiagnosisWorded, Emit, Notice, NotStored, Stage, StageStarted
from hermes_agent.model.request import Request
from hermes_agent.workflow import stored
from hermes_agent.workflow.way import Kept, Question, StepsNotKeptError, Way
from tools.errors import HermesError
from tools.leftovers import private_folder, remove_leftovers

if TYPE_CHECKING:
    from hermes_agent.llm.tool_loop import ResultStore
    from hermes_agent.workflow.proposals import Proposals
    from hermes_agent.workflow.workspace import Workspace


__all__ = ["Kept", "Question", "Writer", "diagnose"]

LOG = logging.getLogger("hermes_dx.workflow")
LONGEST_REASON = 300

Writer = Callable[[Diagnosis, Emit], Diagnosis]


def diagnose(
    request: Request,
    emit: Emit,
    writer: Writer | None = None,
    kept: Kept | None = None,
    proposals: Proposals | None = None,
    question: Question | None = None,
    results: ResultStore | None = None,
) -> Diagnosis:
    """The diagnosis of a run: stored when nothing has changed since, else made by the workflow.

    ``writer`` adds a model's words, after the answer from templates was emitted; only that answer is stored.
    ``proposals``: a model may add hypotheses to what is unexplained, after that answer too; they are tested like all
    others. ``kept``: keep each step, and go on after the last one that an earlier call finished. ``question``: a person
    may be asked for one source that would decide between hypotheses. The diagnosis without it is given at once and
    ``SourceWanted`` emitted after it; the next call with the same question and its answer goes on, or begins again
    where the files have changed since. An answer that adds nothing leaves the question open, with ``refused`` set.
    ``results`` takes what the tools gave, under the handles that are reported.
    Raises ``InputError`` when a source cannot be read or holds no training run, ``NotComparableError`` when the
    baseline cannot be compared with the run.
    """
    begun = time.perf_counter()
    try:
        diagnosis, workspace, cached = _made_or_stored(request, emit, Way(kept, question, results))
    except BaseException:
        if question is not None:
            question.answer = None  # of this call alone
        raise
    emit(DiagnosisReady(diagnosis, time.perf_counter() - begun, cached))
    if question is not None and question.wanted is not None and not question.refused:
        emit(question.wanted)
    worded = diagnosis
    if proposals is not None and diagnosis.leads:
        worded = _with_proposals(diagnosis, request, workspace, proposals, emit)
    if writer is None and worded is diagnosis:
        return diagnosis
    worded = worded if writer is None else writer(worded, emit)
    emit(DiagnosisWorded(worded))
    return worded


def _with_proposals(
    diagnosis: Diagnosis, request: Request, made: Workspace | None, proposals: Proposals, emit: Emit
) -> Diagnosis:
    """The diagnosis with a model's hypotheses; a stored one has its run read again for it."""
    from hermes_agent.workflow.proposals import with_proposals
    from hermes_agent.workflow.workspace import Workspace

    try:
        profile = (made or Workspace(request)).profile()
        return with_proposals(diagnosis, profile, proposals(diagnosis, emit), emit)
    except HermesError as error:  # the run is gone since it was diagnosed: its diagnosis holds as it is
        emit(Notice(printable(f"No further hypotheses: {error}", LONGEST_REASON)))
        return diagnosis


def _made_or_stored(request: Request, emit: Emit, way: Way) -> tuple[Diagnosis, Workspace | None, bool]:
    """The diagnosis from templates, the workspace it was made with, and whether it was stored before."""
    if request.cache_dir is None:
        return *_run(request, emit, way), False
    with suppress(OSError):  # said when the diagnosis cannot be stored
        private_folder(request.cache_dir)
    remove_leftovers(request.cache_dir)
    name = stored.key(request)
    if way.question is not None and way.question.key != name:  # the files have changed since it was asked
        way.question.workspace = way.question.saver = way.question.wanted = None
    waits = _waits(way)
    found = None if request.summaries or waits else stored.find(request.cache_dir, name)  # what is missing is made
    if found is not None and not found.recall_note.startswith(NOT_LOOKED_UP):  # the case library may work now
        stored.remember(request.cache_dir, name, request)
        _finish(way, request, emit)
        return found, None, True
    diagnosis, made = _run(request, emit, way, name)
    if made.transient:
        emit(NotStored("A trace that was left out may be read the next time, so this answer was not stored."))
        return diagnosis, made, False
    if made.request != request:  # a person has attached a source
        if stored.key(request) != name:
            emit(NotStored("The files have changed while they were diagnosed, so this answer was not stored."))
            return diagnosis, made, False
        name = stored.key(made.request)
    if not stored.keep(request.cache_dir, name, made.request, diagnosis):
        emit(NotStored(f"{request.cache_dir}: nothing can be stored there; check its permissions and the space left."))
    return diagnosis, made, False


def _run(request: Request, emit: Emit, way: Way, key: str = "") -> tuple[Diagnosis, Workspace]:
    """The diagnosis, and the workspace that it was made with, which is closed."""
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
        emit(_not_kept(error))
        way = replace(way, kept=None)
        result = _result(workspace, emit, way, key)
    finally:
        workspace.close()
    _finish(way, workspace.request, emit)
    return Diagnosis.model_validate(result["diagnosis"]), workspace


def _waits(way: Way) -> bool:
    """Return whether a diagnosis that was kept waits for the answer of a person."""
    if way.question is None:
        return False
    if way.question.workspace is not None or way.question.answer is not None:
        return True
    with suppress(StepsNotKeptError):  # said when its steps cannot be kept
        return way.kept is not None and way.kept.waits
    return False


def _finish(way: Way, request: Request, emit: Emit) -> None:
    """Drop the steps that were kept, unless the diagnosis waits for an answer, and keep what it was made of."""
    if way.question is not None:
        way.question.request = request
    if way.kept is not None and (way.question is None or way.question.wanted is None):
        try:
            way.kept.finish(request)
        except StepsNotKeptError as error:
            emit(_not_kept(error))


def _not_kept(error: Exception) -> Notice:
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
