"""One call from a request to a diagnosis, with events on the way."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from hermes_agent.report.diagnosis import Diagnosis
from hermes_agent.workflow import stored
from hermes_agent.workflow.events import DiagnosisReady, Emit, Event, Stage, StageProgress
from hermes_agent.workflow.request import Request


def diagnose(request: Request, emit: Emit) -> Diagnosis:
    """The diagnosis of a run: stored when nothing has changed since, else made by the workflow.

    Raises ``InputError`` when a source cannot be read or holds no training run, ``NotComparableError`` when the
    baseline cannot be compared with the run.
    """
    begun = time.perf_counter()
    name = stored.key(request) if request.cache_dir else ""
    if request.cache_dir:
        kept = stored.find(request.cache_dir, name)
        if kept is not None:
            stored.remember(request.cache_dir, name, request)
            emit(DiagnosisReady(kept, time.perf_counter() - begun, cached=True))
            return kept
    diagnosis = _run(request, emit)
    if request.cache_dir:
        stored.keep(request.cache_dir, name, request, diagnosis)
    emit(DiagnosisReady(diagnosis, time.perf_counter() - begun))
    return diagnosis


def _run(request: Request, emit: Emit) -> Diagnosis:
    from hermes_agent.workflow.workspace import Context, Workspace

    def report(stage: str, done: int, total: int, detail: str) -> None:
        emit(StageProgress(Stage.LOAD, done, total, f"{stage} {detail}".strip()))

    workspace = Workspace(request, report)  # loading begins here, while the heavy libraries are imported
    workspace.open_index()
    _settle_environment(os.environ)
    from hermes_agent.workflow.graph import build, config

    result: dict[str, object] = {}
    for mode, chunk in build().stream(
        {}, config=config(), context=Context(workspace), stream_mode=["custom", "values"]
    ):  # type: ignore[call-overload]
        if mode == "custom":
            event: Event = chunk
            emit(event)
        else:
            result = chunk
    return Diagnosis.model_validate(result["diagnosis"])


def _settle_environment(environment: Mapping[str, str]) -> None:
    """LangGraph reads these when it is imported: stored states hold plain values only, and nothing is traced away."""
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        if environment.get(name):
            os.environ[name] = "false"
