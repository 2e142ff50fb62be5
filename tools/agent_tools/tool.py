"""A tool: a typed function with a docstring, which gives schema and description; and the run that it reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.errors import UsageError

if TYPE_CHECKING:
    from tools.agent_tools.records import CaseRow, CheckRow, EvidenceRow
    from tools.agent_tools.result import Result, Row
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
    function: Callable[[Context, Arguments], Result]
    rows: tuple[type[Row], ...] = ()  # the kinds of rows that it gives; none: its answer is figures, notes and text
    diagnosed: bool = False  # it reads the diagnosis and not the run alone

    @property
    def schema(self) -> dict[str, object]:
        """JSON Schema of the arguments object."""
        return self.arguments.model_json_schema()

    def check(self, given: Mapping[str, object] | str) -> Arguments:
        """The arguments, from a mapping or a JSON text; raises UsageError naming each fault and what is allowed."""
        return check_arguments(self.name, self.arguments, given)

    def call(self, context: Context, given: Mapping[str, object] | str) -> Result:
        """Check the arguments and run the tool; raises HermesError with a sentence for the caller."""
        return self.function(context, self.check(given))


def read_tool(
    function: Callable[[Context, ArgumentsType], Result],
    arguments: type[ArgumentsType],
    *rows: type[Row],
    diagnosed: bool = False,
) -> ReadTool[Context]:
    """The tool of a function, under the function's own name; ``rows``: the kinds of rows that it gives."""

    def run(context: Context, asked: Arguments) -> Result:
        assert isinstance(asked, arguments)
        return function(context, asked)

    return ReadTool(function.__name__, inspect.cleandoc(function.__doc__ or ""), arguments, run, rows, diagnosed)


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


class ToolContext(Protocol):
    """The run under discussion. The implementation numbers the facts and stores them for the session."""

    def profile(self) -> Profile:
        """The run; raises InputError when it cannot be read any more."""
        ...

    def baseline(self) -> Profile | None:
        """The run to compare with; None where none was named."""
        ...

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        """A finite figure measured now; raises UsageError where the run cannot give it."""
        ...

    def cite(self, fact: Fact) -> str:
        """The id under which the fact can be cited; "" where there is no diagnosis that could hold it."""
        ...

    def checks(self) -> Sequence[CheckRow]:
        """The outcomes of all checks of the diagnosis."""
        ...

    def evidence_rows(self) -> Sequence[EvidenceRow]:
        """The figures of the diagnosis and those measured since."""
        ...

    def similar_cases(self, text: str | None) -> Sequence[CaseRow]:
        """Cases like a text, without one those like this run."""
        ...

    def record(self, identifier: str) -> str:
        """The record of E7, A1, C2, a check or a cause as text; raises UsageError where there is none."""
        ...
