"""Read the JSON input of a planner; what is wrong with it becomes one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from tools.errors import UsageError
from tools.whatif.planners.record import Given

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

GivenType = TypeVar("GivenType", bound=Given)
LONGEST_VALUE = 60  # characters of a wrong value that are repeated


def read_input(model: type[GivenType], text: str | bytes) -> GivenType:
    """Return the checked input; raises UsageError with the first fault, and how many there are."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        unknown = [each for each in faults if each["type"] == "extra_forbidden"]
        first = (unknown or faults)[0]  # an unknown field explains a missing one, not the other way round
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise UsageError(_sentence(first, model.model_json_schema()) + more) from None


def _sentence(fault: ErrorDetails, schema: Mapping[str, object]) -> str:
    place = _path(fault["loc"])
    match fault["type"]:
        case "extra_forbidden":
            parent, name = fault["loc"][:-1], str(fault["loc"][-1])
            known = _fields(schema, parent)
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            inside = f" in {_path(parent)}" if parent else ""
            hint = f"; the nearest known one is {nearest[0]}" if nearest else ""
            return f"unknown field {shown(name)}{inside}{hint}"
        case "missing":
            return f"{place} is missing"
        case "json_invalid":
            return f"the input is not JSON: {fault['msg'].removeprefix('Invalid JSON: ')}"
        case "value_error":
            reason = fault["msg"].removeprefix("Value error, ")
            return f"{place}: {reason}" if place else reason
        case _:
            message = fault["msg"][:1].lower() + fault["msg"][1:]
            return f"{place or 'the input'}: {shown(fault['input'])} is not possible, {message}"


def shown(value: object) -> str:
    """A wrong value as a message repeats it."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def _path(location: Sequence[int | str]) -> str:
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in location)
    return text.removeprefix(".")


def _fields(schema: Mapping[str, object], location: Sequence[int | str]) -> list[str]:
    """Names of the fields that the schema knows at a location."""
    node: object = schema
    for step in location:
        node = _resolved(schema, node)
        node = node.get("items") if isinstance(step, int) else _member(node, "properties").get(step)
    return list(_member(_resolved(schema, node), "properties"))


def _resolved(schema: Mapping[str, object], node: object) -> Mapping[str, object]:
    """Follow a reference, and take the non-null side of an optional field."""
    if not isinstance(node, Mapping):
        return {}
    choices = node.get("anyOf")
    if isinstance(choices, list):
        return _resolved(schema, next((each for each in choices if each.get("type") != "null"), None))
    reference = node.get("$ref")
    if isinstance(reference, str):
        return _resolved(schema, _member(schema, "$defs").get(reference.rpartition("/")[2]))
    return node


def _member(node: Mapping[str, object], name: str) -> Mapping[str, object]:
    member = node.get(name)
    return member if isinstance(member, Mapping) else {}
