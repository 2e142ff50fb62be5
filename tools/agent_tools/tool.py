"""A tool: a typed function with a docstring; its schema and description come from them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.errors import UsageError

Context = TypeVar("Context")
ArgumentsType = TypeVar("ArgumentsType", bound="Arguments")


class Arguments(BaseModel):
    """What a tool is asked; an unknown argument is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NoArguments(Arguments):
    """Of a tool that asks for nothing."""


@dataclass(frozen=True)
class ReadTool(Generic[Context]):
    """A tool that only reads. ``run`` takes the arguments as a program got them from outside."""

    name: str
    description: str
    schema: Mapping[str, object]
    run: Callable[[Context, Mapping[str, object]], str]


def read_tool(function: Callable[[Context, ArgumentsType], str], arguments: type[ArgumentsType]) -> ReadTool[Context]:
    """The tool of a function, under the function's own name.

    Running it raises UsageError that tells what was asked, what is wrong and what to try.
    """

    def run(context: Context, given: Mapping[str, object]) -> str:
        try:
            asked = arguments.model_validate(given)
        except ValidationError as error:
            raise UsageError(
                f"the arguments of {function.__name__} do not fit: {describe_faults(error, arguments)}"
            ) from error
        return function(context, asked)

    return ReadTool(function.__name__, inspect.cleandoc(function.__doc__ or ""), arguments.model_json_schema(), run)


def describe_faults(error: ValidationError, model: type[BaseModel]) -> str:
    """Every fault of an input to ``model`` in one phrase each, with the values or names that are allowed."""
    known = ", ".join(model.model_fields) or "none"
    faults = []
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        where = ".".join(str(part) for part in each["loc"]) or "the whole"
        match each["type"]:
            case "extra_forbidden":
                names = f" (known: {known})" if len(each["loc"]) == 1 else ""
                faults.append(f"{where} is unknown{names}")
            case "missing":
                faults.append(f"{where} is missing")
            case _:
                faults.append(f"{where}: {each['msg'].replace('Input should', 'should')}")
    return "; ".join(faults)
