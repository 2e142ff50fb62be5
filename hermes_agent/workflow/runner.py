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
    """The last state of the workflow; its events are passed on. ``key``: what the diagnosis depends on."""
    kept, saver = way.kept, _saver(way)
    bounds = config("" if saver is None else kept.session if kept else "one run")
    graph = build(saver)
    given: dict[str, Any] | Command[Any] | None = {"key": key, "interactive": way.ask is not None}
    more: dict[str, Any] = {}
    if kept is not None and saver is not None:
        known = graph.get_state(bounds)
        if known.tasks and known.values.get("key") == key:
            given = None  # go on
            if attached := known.values.get("attached"):
                workspace.attach([Path(path) for path in attached])
        else:
            saver.delete_thread(kept.session)
        kept.store.set_pending(kept.session, kept.store.UNFINISHED)
        more["durability"] = "sync"  # a step that is finished is kept before the next one begins
    while True:
        state, wanted = _stream(graph.stream, given, emit, config=bounds, context=workspace, **more)
        if wanted is None or way.ask is None:
            return state
        if kept is not None:
            kept.store.set_pending(kept.session, wanted.question)
        emit(wanted)
        given = Command(resume=[str(path.absolute()) for path in way.ask(wanted)])


def _stream(
    stream: Callable[..., Any], given: object, emit: Emit, **more: object
) -> tuple[dict[str, Any], SourceWanted | None]:
    """The last state, and what a person is asked where the workflow waits for an answer."""
    state: dict[str, Any] = {}
    wanted: SourceWanted | None = None
    for mode, chunk in stream(given, stream_mode=["custom", "values"], **more):
        if mode == "custom":
            emit(chunk)
        elif "__interrupt__" in chunk:
            (asked,) = chunk["__interrupt__"]
            wanted = _question(asked.value)
        else:
            state = chunk
    return state, wanted


def _question(value: dict[str, Any]) -> SourceWanted:
    ranks = tuple(value["ranks"])
    question = f"Are there {value['source']} of this run? They would show whether it is {value['decides']}."
    return SourceWanted(question, value["source"], ranks, value["decides"])


def _saver(way: Way) -> BaseCheckpointSaver[str] | None:
    """What keeps the state: the session's file, or memory where a person may be asked, else nothing."""
    if way.kept is not None:
        return way.kept.store.saver()
    if way.ask is None:
        return None
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver()
