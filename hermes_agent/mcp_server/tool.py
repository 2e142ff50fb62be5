"""A tool of the server: checked arguments in, a typed record and its text out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hermes_agent.llm.redact import Redactor
from hermes_agent.mcp_server.open_runs import IsCancelled, OpenRuns
from hermes_agent.model.events import Emit, Event, ToolCalled
from hermes_agent.session import Session
from tools.agent_tools.tool import Arguments, check_arguments
from tools.errors import UsageError

RUN_HELP = "name of a registered run (list_runs), what open_run returned, or a path inside an allowed folder"
RunName = Annotated[str, Field(min_length=1, max_length=4096, description=RUN_HELP)]
ArgumentsType = TypeVar("ArgumentsType", bound=Arguments)


class OfRun(Arguments):
    """Arguments of a tool about one run."""

    run: RunName


class Record(BaseModel):
    """A result; its fields are the output schema of its tool."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Reply:
    """The record, and the text that says the same; ``redactor`` masks names in both."""

    record: BaseModel
    text: str
    redactor: Redactor | None = None


@dataclass
class Call:
    """One call: the runs, who hears of its progress, and whether its client still waits for it."""

    runs: OpenRuns
    heard: Emit
    cancelled: IsCancelled
    handles: list[str] = field(default_factory=list)  # of the results of tools, in the order of the calls

    def emit(self, event: Event) -> None:
        """Pass an event on; raises Cancelled where the client has gone."""
        if isinstance(event, ToolCalled):
            self.handles.append(event.call.handle)
        self.heard(event)

    @contextmanager
    def session(self, run: str, *, fresh: bool = False) -> Iterator[tuple[Session, Redactor | None]]:
        """The session of a run, diagnosed."""
        with self.runs.using(self.runs.handle(run), self.emit, self.cancelled, fresh=fresh) as opened:
            yield opened


@dataclass(frozen=True)
class ServerTool:
    """A tool as clients see it."""

    name: str
    description: str
    arguments: type[Arguments]
    result: type[BaseModel]
    function: Callable[[Call, Arguments], Reply]

    def check(self, given: Mapping[str, object]) -> Arguments:
        """The arguments; raises UsageError naming each fault, and the nearest name for an unknown one."""
        known = self.arguments.model_fields
        for name in given:
            if name not in known and (near := get_close_matches(name[:100], known, 1, cutoff=0.5)):
                raise UsageError(f"{self.name} has no parameter {name[:100]!r}; did you mean {near[0]!r}?")
        return check_arguments(self.name, self.arguments, given)


def server_tool(
    function: Callable[[Call, ArgumentsType], Reply], arguments: type[ArgumentsType], result: type[BaseModel]
) -> ServerTool:
    """The tool of a function, under the function's own name; its docstring is the description."""

    def run(call: Call, asked: Arguments) -> Reply:
        assert isinstance(asked, arguments)
        return function(call, asked)

    return ServerTool(function.__name__, inspect.cleandoc(function.__doc__ or ""), arguments, result, run)
