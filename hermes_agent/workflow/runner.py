"""Runs the workflow: from its beginning, after the last step that was kept, or after the answer of a person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from langgraph.types import Command

from hermes_agent.model.diagnosis import WantedSourceRecord
from hermes_agent.model.events import Emit, SourceWanted
from hermes_agent.workflow.graph import build, config
from hermes_agent.workflow.way import Way, source_wanted
from hermes_agent.workflow.workspace import Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


Given: TypeAlias = dict[str, Any] | Command[Any] | None  # to a graph: its input, an answer, nothing to go on

NOT_ASKED = "Not attached: the files of the run have changed, and no further source is asked for; attach it again"


def run(workspace: Workspace, emit: Emit, way: Way, key: str) -> dict[str, Any]:
    """The last state of the workflow; its events are passed on. ``key``: what the diagnosis depends on.

    Where a source would decide, ``way.question`` is set and the state that waits for the answer is kept. An answer to
    a state of another key is given when the run was diagnosed again.
    """
    kept, question, saver = way.kept, way.question, _saver(way)
    bounds = config("" if saver is None else kept.session if kept else "one run")
    graph = build(saver)
    known = None if saver is None else graph.get_state(bounds)
    given: Given = {"key": key, "interactive": question is not None}
    if known is not None and known.values.get("key") == key and (known.tasks or _answer(way) is None):
        given = _go_on(workspace, way, [Path(path) for path in known.values.get("attached") or ()])
    elif known is not None and known.values and saver is not None:
        saver.delete_thread("one run" if kept is None else kept.session)
    more: dict[str, Any] = {"config": bounds, "context": workspace}
    if kept is not None:
        kept.begin()
        more["durability"] = "sync"  # a step that is finished is kept before the next one begins
    state, wanted = _streamed(graph.stream, given, emit, more)
    answer, refused = _answer(way), ""
    if answer is not None and not isinstance(given, Command):  # the state that it was meant for is gone
        if wanted is not None:
            state, wanted = _streamed(graph.stream, answer, emit, more)
        elif answer.resume:
            refused = NOT_ASKED
    if answer is not None and wanted is not None:
        refused = state["refused"]
    if question is not None:
        question.wanted, question.answer, question.refused, question.key = wanted, None, refused, key
        question.workspace, question.saver = (workspace, saver) if wanted is not None else (None, None)
    if kept is not None and wanted is not None:
        kept.wait(wanted.question)
    return state or dict(graph.get_state(bounds).values)


def _streamed(
    stream: Callable[..., Any], given: Given, emit: Emit, more: dict[str, Any]
) -> tuple[dict[str, Any], SourceWanted | None]:
    """The last state and the source that is asked for; ``stream``: its stubs know the chunks of a single mode."""
    state: dict[str, Any] = {}
    wanted: SourceWanted | None = None
    for mode, chunk in stream(given, stream_mode=["custom", "values"], **more):
        if mode == "custom":
            emit(chunk)
        elif "__interrupt__" in chunk:
            (asked,) = chunk["__interrupt__"]
            wanted = source_wanted(WantedSourceRecord.model_validate(asked.value))
        else:
            state = chunk
    return state, wanted


def _go_on(workspace: Workspace, way: Way, attached: list[Path]) -> Given:
    """What the kept state is given: the answer of a person, or nothing to go on where it was left."""
    if attached and not workspace.has(attached):
        workspace.attach(attached)
    return _answer(way)


def _answer(way: Way) -> Command[Any] | None:
    """The answer of a person; None while nobody has answered."""
    if way.question is None or way.question.answer is None:
        return None
    return Command(resume=[str(path.absolute()) for path in way.question.answer])


def _saver(way: Way) -> BaseCheckpointSaver[str] | None:
    """What keeps the state: the session's file, or memory where a person may be asked, else nothing."""
    if way.kept is not None:
        return way.kept.saver()
    if way.question is None:
        return None
    from langgraph.checkpoint.memory import InMemorySaver

    return way.question.saver or InMemorySaver()
