"""What the tool loop may call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from hermes_agent.llm.model import ToolCall, ToolSpec
from hermes_agent.llm.sanitize import one_line
from hermes_agent.llm.schema_check import complaints
from tools.errors import ModelError

QUOTED_CHARS = 200


class ToolOutput(Protocol):
    """What a tool found: words for the model and, for programs, the data behind them."""

    @property
    def text(self) -> str:
        """The finding in words, as long as it takes; the loop shortens it for the model."""
        ...

    @property
    def data(self) -> object:
        """The same for programs."""
        ...


class Tool(Protocol):
    """A function the model may ask for; there is no tool that writes or executes."""

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        ...

    @property
    def description(self) -> str:
        """What it answers, for the model."""
        ...

    @property
    def schema(self) -> Mapping[str, object]:
        """JSON Schema of the arguments object."""
        ...

    @property
    def read_only(self) -> Literal[True]:
        """True: a tool that could change anything does not fit this type and is refused by the loop."""
        ...

    def call(self, arguments: dict[str, object]) -> ToolOutput:
        """Run it with arguments that fit the schema; raises HermesError with a sentence for the model."""
        ...


@dataclass(frozen=True)
class Output:
    """A plain ToolOutput."""

    text: str
    data: object = None


@dataclass(frozen=True)
class FunctionTool:
    """A tool made of a function that only reads."""

    name: str
    description: str
    schema: Mapping[str, object]
    function: Callable[[dict[str, object]], ToolOutput]
    read_only: Literal[True] = True

    def call(self, arguments: dict[str, object]) -> ToolOutput:
        """See Tool.call."""
        return self.function(arguments)


def spec_of(tool: Tool) -> ToolSpec:
    """The tool as the model gets to see it."""
    return ToolSpec(tool.name, tool.description, tool.schema)


def json_object(text: str) -> dict[str, object]:
    """``text`` as a JSON object; raises ModelError saying what it is instead."""
    quoted = one_line(text, QUOTED_CHARS)
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"The model wrote something that is not JSON: {quoted}") from error
    if not isinstance(value, dict):
        raise ModelError(f"The model wrote JSON that is not an object: {quoted}")
    return value


def arguments_of(call: ToolCall, tool: Tool) -> dict[str, object]:
    """The arguments of a call, fit for the tool; raises ModelError saying what is wrong with them."""
    arguments = json_object(call.arguments_json or "{}")
    faults = complaints(arguments, tool.schema)
    if faults:
        raise ModelError(f"The arguments do not fit: {one_line('; '.join(faults), 2 * QUOTED_CHARS)}")
    return arguments


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")
