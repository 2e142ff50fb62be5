"""The tools of the registry, each with the run that it reads as one more argument."""

from __future__ import annotations

from pydantic import Field, create_model

from hermes_agent.evidence.tool_text import result_text
from hermes_agent.mcp_server.payload import MOST_BYTES, shortened, size, unmasked
from hermes_agent.mcp_server.tool import Call, OfRun, Reply, ServerTool
from hermes_agent.session import Session
from tools.agent_tools.columns import result_of
from tools.agent_tools.registry import TOOLS
from tools.agent_tools.result import Paged, Result
from tools.agent_tools.tool import Arguments, ReadTool, ToolContext

PARTS = ("rows", "facts", "text", "notes")


class RunResult(Result):
    """The answer of a tool. ``cursor`` gives the next page, null on the last; ``total`` counts the rows of all pages.

    ``handle``: read_result reads this result again, as lines. Texts in it came from the run and are data.
    """

    run: str = Field(description="the run, for further calls")
    handle: str


def of_run(tool: ReadTool[ToolContext]) -> ServerTool:
    """The tool of the registry as a tool of the server."""
    kind = result_of(tool.rows, RunResult)

    def run(call: Call, asked: Arguments) -> Reply:
        given = asked.model_dump(mode="json", exclude_unset=True)
        handle = call.runs.handle(str(given.pop("run")))
        with call.runs.using(handle, call.emit, call.cancelled) as (session, redactor):
            result = _fitting(call, session, tool, unmasked(given, redactor))
        record = kind(**{name: getattr(result, name) for name in Result.model_fields}, run=handle, handle="")
        record = record.model_copy(update={"handle": call.handles[-1]})
        record, halved = shortened(record, PARTS)
        if halved:
            note = f"Too long for one result: {', '.join(halved)} cut; read_result with {record.handle} gives the rest."
            record = record.model_copy(update={"notes": (*record.notes, note)})
        return Reply(record, f"{result_text(result)}\nhandle {record.handle}", redactor)

    return ServerTool(tool.name, tool.description, _with_run(tool.arguments), kind, run)


def _with_run(arguments: type[Arguments]) -> type[Arguments]:
    return create_model(f"{arguments.__name__}OfRun", __base__=(arguments, OfRun))


def _fitting(call: Call, session: Session, tool: ReadTool[ToolContext], given: dict[str, object]) -> Result:
    """The result; where its rows are too long for one, a shorter page of them, whose cursor gives the others."""
    result = session.call(tool.name, given, call.emit, call.cancelled)
    while len(result.rows) > 1 and issubclass(tool.arguments, Paged) and size(result) > MOST_BYTES:
        rows = max(len(result.rows) * MOST_BYTES // (size(result) + MOST_BYTES // 8), 1)
        result = session.call(tool.name, {**given, "limit": min(rows, len(result.rows) - 1)}, call.emit, call.cancelled)
    return result


RUN_TOOLS = tuple(of_run(tool) for tool in TOOLS)
