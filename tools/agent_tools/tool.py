"""A tool: a typed function with a docstring, which gives schema and description; and the run that it reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.errors import UsageError

if TYPE_CHECKING:
    from tools.findings import Argument, Fact
    from tools.views.profile import Profile

Context = TypeVar("Context")
ArgumentsType = TypeVar("ArgumentsType", bound="Arguments")


class Arguments(BaseModel):
    """The arguments of a tool; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NoArguments(Arguments):
    """For a tool that takes no arguments."""


@dataclass(frozen=True)
class Tool:
    """A tool that only reads, ready to be called; ``function`` takes an instance of ``arguments``."""

    name: str
    description: str
    arguments: type[Arguments]
    function: Callable[[Arguments], str]

    @property
    def schema(self) -> dict[str, object]:
        """JSON Schema of the arguments object."""
        return self.arguments.model_json_schema()

    def check(self, given: Mapping[str, object] | str) -> Arguments:
        """The arguments, from a mapping or a JSON text; raises UsageError naming each fault and what is allowed."""
        return check_arguments(self.name, self.arguments, given)

    def call(self, given: Mapping[str, object]) -> str:
        """Check the arguments and run the tool; raises HermesError with a sentence for the caller."""
        return self.function(self.check(given))


@dataclass(frozen=True)
class ReadTool(Generic[Context]):
    """A tool that only reads, before it knows what from."""

    name: str
    description: str
    arguments: type[Arguments]
    function: Callable[[Context, Arguments], str]

    def bind(self, context: Context) -> Tool:
        """The tool on one context."""
        return Tool(self.name, self.description, self.arguments, lambda asked: self.function(context, asked))


def read_tool(function: Callable[[Context, ArgumentsType], str], arguments: type[ArgumentsType]) -> ReadTool[Context]:
    """The tool of a function, under the function's own name."""

    def run(context: Context, asked: Arguments) -> str:
        assert isinstance(asked, arguments)
        return function(context, asked)

    return ReadTool(function.__name__, inspect.cleandoc(function.__doc__ or ""), arguments, run)


def check_arguments(name: str, model: type[Arguments], given: Mapping[str, object] | str) -> Arguments:
    """The arguments of what is called ``name``; raises UsageError naming each fault and what is allowed."""
    try:
        return model.model_validate_json(given) if isinstance(given, str) else model.model_validate(given)
    except ValidationError as error:
        raise UsageError(f"the arguments of {name} do not fit: {describe_faults(error, model)}") from error


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


ROWS = 10  # rows a tool gives unless more are asked for
MOST_ROWS = 40

Figure: TypeAlias = "tuple[str, str, Mapping[str, Argument]]"  # label, metric and its arguments


class ToolContext(Protocol):
    """The run under discussion. The implementation numbers the facts and stores them for the session."""

    def profile(self) -> Profile:
        """The run; raises InputError when it cannot be read any more."""
        ...

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        """A finite figure measured now; raises UsageError where the run cannot give it."""
        ...

    def say(self, template: str, *facts: Fact, names: tuple[str, ...] = ()) -> str:
        """The template with ``{0}`` written as value, unit and id of the first fact, ``{n0}`` as a quoted name."""
        ...


def measured(context: ToolContext, figures: Iterable[Figure]) -> list[str]:
    """One line per figure: its value with an id, or why the run cannot give it."""
    lines = []
    for label, metric, arguments in figures:
        try:
            fact = context.measure(metric, **arguments)
        except UsageError as error:
            lines.append(f"- {label}: cannot be measured: {error}")
        else:
            lines.append("- " + context.say(f"{label}: {{0}}", fact))
    return lines


def page(lines: list[str], total: int, what: str) -> str:
    """The lines, and a sentence about how many there would be."""
    if not lines:
        return f"There are no {what}."
    if total > len(lines):
        lines = [*lines, f"Shown are `{len(lines)} of {total}` {what}; narrow the question or raise limit."]
    return "\n".join(lines)
