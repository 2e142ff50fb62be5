"""Deep looks: the tools that list layers, shapes, lines, groups or gaps, called where the time is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from hermes_agent.evidence.citations import without_citations
from hermes_agent.evidence.ledger import Ledger, render
from hermes_agent.llm.tool_loop import ResultStore
from hermes_agent.model.events import Emit
from hermes_agent.tool_calls import ToolCaller
from hermes_agent.workflow.workspace import Workspace
from tools.agent_tools.context import RunContext
from tools.errors import HermesError
from tools.findings import Sentence
from tools.judgement.routes import LOOKS, Route, routes, sentence_of

LOG = logging.getLogger("hermes_dx.workflow")

BY_NAME = {look.name: look for look in LOOKS}
SENTENCE: TypeAdapter[Sentence] = TypeAdapter(Sentence)
ROUTES: TypeAdapter[list[Route]] = TypeAdapter(list[Route])


def decided(workspace: Workspace) -> list[dict[str, Any]]:
    """The decision on every deep look as plain values."""
    found: list[dict[str, Any]] = ROUTES.dump_python(list(routes(workspace.profile())), mode="json")
    return found


def line(values: Sequence[dict[str, Any]]) -> str:
    """The looks that are taken, with the reason, in one line."""
    found = [each for each in ROUTES.validate_python(list(values)) if each.taken]
    taken = [f"{each.look} ({without_citations(render(each.reason, Ledger()))})" for each in found]
    return f"looks into {', '.join(taken)}" if taken else "no deep look is worth it"


def take(name: str, rank: int, workspace: Workspace, emit: Emit, store: ResultStore) -> dict[str, Any] | None:
    """What one look shows as plain values; None where it shows nothing."""
    look, profile = BY_NAME[name], workspace.profile()
    caller = ToolCaller(RunContext(profile, workspace.baseline()), emit, store)
    try:
        of_rank = {} if look.tool == "plan" else {"rank": rank}  # a plan is for all ranks
        rows = caller.call(look.tool, {**look.arguments, **of_rank}, by="investigation").rows
        found = sentence_of(profile, look, rank, [row.model_dump() for row in rows])
    except HermesError:
        return None
    except Exception:  # the dispatcher's boundary: a look adds a detail, the diagnosis holds without it
        LOG.exception("the look at %s failed", name)
        return None
    if found is None:
        return None
    shown: dict[str, Any] = SENTENCE.dump_python(found, mode="json")
    return shown


def shown(values: Sequence[dict[str, Any]], looks: dict[str, dict[str, Any]]) -> list[tuple[Route, Sentence | None]]:
    """The decisions of the state with what the looks showed, validated."""
    found = ROUTES.validate_python(list(values))
    return [(each, SENTENCE.validate_python(looks[each.look]) if each.look in looks else None) for each in found]
