"""Runs the workflow: from its beginning, after the last step that was kept, or after the answer of a person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from hermes_agent.model.events import Emit, SourceWanted
from hermes_agent.workflow.graph import build, config
from hermes_agent.workflow.way import Way
from hermes_agent.workflow.workspace import Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


def run(workspace: Workspace, emit: Emit, way: Way, key: str) -> dict[str, Any]:
    """The last state of the workflow; its events are passed on. ``key``: what the diagnosis depends on.

    Where a source would decide, ``way.question`` is set and the state that waits for the answer is kept.
    """
    kept, question, saver = way.kept, way.question, _saver(way)
    bounds = config("" if saver is None else kept.session if kept else "one run")
    graph = build(saver)
    given: dict[str, Any] | Command[Any] | None = {"key": key, "interactive": question is not None}
    more: dict[str, Any] = {}
    if saver is not None:
        known = graph.get_state(bounds)
        if known.tasks and known.values.get("key") == key:
            given = _go_on(workspace, way, [Path(path) for path in known.values.get("attached") or ()])
        elif known.values:
            saver.delete_thread("one run" if kept is None else kept.session)
    if kept is not None:
        kept.store.set_pending(kept.session, kept.store.UNFINISHED)
        more["durability"] = "sync"  # a step that is finished is kept before the next one begins
    state: dict[str, Any] = {}
    wanted: SourceWanted | None = None
    stream: Callable[..., Any] = graph.stream  # its stubs know the chunks of a single mode
    for mode, chunk in stream(given, stream_mode=["custom", "values"], config=bounds, context=workspace, **more):
        if mode == "custom":
            emit(chunk)
        elif "__interrupt__" in chunk:
            (asked,) = chunk["__interrupt__"]
            wanted = _question(asked.value)
        else:
            state = chunk
    if question is not None:
        question.wanted, question.answer = wanted, None
        question.workspace, question.saver = (workspace, saver) if wanted is not None else (None, None)
    if kept is not None and wanted is not None:
        kept.store.set_pending(kept.session, wanted.question)
    return state or dict(graph.get_state(bounds).values)


def _go_on(workspace: Workspace, way: Way, attached: list[Path]) -> Command[Any] | None:
    """What the kept state is given: the answer of a person, or nothing to go on where it was left."""
    if attached and not workspace.has(attached):
        workspace.attach(attached)
    if way.question is None or way.question.answer is None:
        return None
    return Command(resume=[str(path.absolute()) for path in way.question.answer])


def _question(value: dict[str, Any]) -> SourceWanted:
    ranks = tuple(value["ranks"])
    question = f"Are there {value['source']} of this run? They would show whether it is {value['decides']}."
    return SourceWanted(question, value["source"], ranks, value["decides"])


def _saver(way: Way) -> BaseCheckpointSaver[str] | None:
    """What keeps the state: the session's file, or memory where a person may be asked, else nothing."""
    if way.kept is not None:
        return way.kept.store.saver()
    if way.question is None:
        return None
    from langgraph.checkpoint.memory import InMemorySaver

    return way.question.saver or InMemorySaver()
