"""The one caller of the tools: each call is checked, timed, stored under a handle and reported as one event."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal, TypeAlias

from hermes_agent.evidence.tool_text import result_text
from hermes_agent.llm.tool_loop import ResultStore
from hermes_agent.model.diagnosis import Scalar
from hermes_agent.model.events import Emit, ToolCalled
from hermes_agent.model.turn import ToolCallRecord
from tools.agent_tools.registry import tool_of
from tools.agent_tools.result import Result
from tools.agent_tools.tool import Arguments, Context, ReadTool, Tool, ToolContext
from tools.documents import parse_json
from tools.errors import HermesError, UsageError

Caller: TypeAlias = Literal["investigation", "template", "model"]
Recorded: TypeAlias = "Scalar | list[Scalar]"
ARGUMENT_CHARS = 500  # of one argument in a record
MOST_ARGUMENTS = 40


@dataclass(frozen=True)
class ReportedTool(Tool):
    """A tool whose calls are reported also where their arguments do not fit."""

    refused: Callable[[Mapping[str, object] | str, UsageError], None]

    def check(self, given: Mapping[str, object] | str) -> Arguments:
        """The arguments, see ``Tool.check``."""
        try:
            return super().check(given)
        except UsageError as error:
            self.refused(given, error)
            raise


class ToolCaller:
    """Calls tools on one run for one conversation; ``store`` keeps the results, ``emit`` hears of every call."""

    def __init__(self, context: ToolContext, emit: Emit, store: ResultStore) -> None:
        self._context = context
        self._emit = emit
        self._store = store

    def call(self, name: str, arguments: Mapping[str, object], by: Caller = "template") -> Result:
        """The result of a tool; raises what the tool raises, HermesError with a sentence for the caller."""
        return self._recorded(name, arguments, by, lambda: tool_of(name).call(self._context, arguments))

    def bound(self, tool: ReadTool[Context], context: Context, by: Caller = "model") -> Tool:
        """The tool for a reader of text, for example a model; its arguments have been checked when it is called."""

        def run(asked: Arguments) -> str:
            given = asked.model_dump(mode="json", exclude_unset=True)
            return result_text(self._recorded(tool.name, given, by, lambda: tool.function(context, asked)))

        def refused(given: Mapping[str, object] | str, error: UsageError) -> None:
            asked = _asked(given) if isinstance(given, str) else given
            with suppress(UsageError):
                self._recorded(tool.name, asked, by, partial(_raise, error))

        return ReportedTool(tool.name, tool.description, tool.arguments, run, refused)

    def _recorded(self, name: str, given: Mapping[str, object], by: Caller, run: Callable[[], Result]) -> Result:
        first = islice(given.items(), MOST_ARGUMENTS)
        arguments = {key[:ARGUMENT_CHARS]: _recorded_value(value) for key, value in first}
        begin = time.perf_counter()

        def report(text: str, rows: int = 0, error: str = "") -> None:
            seconds = time.perf_counter() - begin
            handle = self._store.put(text)
            call = ToolCallRecord(
                handle=handle,
                name=name,
                arguments=arguments,
                by=by,
                seconds=seconds,
                size=len(text),
                rows=rows,
                error=error,
            )
            self._emit(ToolCalled(call))

        try:
            result = run()
        except HermesError as failure:
            report(str(failure), error=str(failure))
            raise
        report(result_text(result), len(result.rows))
        return result


def _raise(error: UsageError) -> Result:
    raise error


def _asked(text: str) -> Mapping[str, object]:
    """The arguments of a JSON text as a record holds them; the text itself where it holds none."""
    try:
        given = parse_json(text)
    except ValueError:
        given = None
    return given if isinstance(given, dict) else {"arguments": text}


def _recorded_value(value: object) -> Recorded:
    """An argument as a record holds it; what is nested becomes JSON text."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float():
            return value
        case str():
            return value[:ARGUMENT_CHARS]
        case _:
            return json.dumps(value, default=str, ensure_ascii=False)[:ARGUMENT_CHARS]
