"""The results of a tool as JSON Schema: the columns of its rows with type, unit and meaning."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, TypeVar

from pydantic import create_model

from tools.agent_tools.result import Result, Row

# The unit of a column by the end of its name; the unit of a cited figure stands next to its value.
UNITS = {
    "ms_per_step": "ms/step",
    "tflop_per_s": "TFLOP/s",
    "bytes": "B",
    "speedup": "x",
    "pct": "%",
    "ms": "ms",
    "us": "us",
    "ns": "ns",
}
ResultType = TypeVar("ResultType", bound=Result)


def result_of(rows: tuple[type[Row], ...], base: type[ResultType]) -> type[ResultType]:
    """``base`` with these kinds of rows and no others; without a kind it holds no rows."""
    listed: Any = tuple[reduce(or_, rows), ...] if rows else tuple[()]  # type: ignore[misc]  # kinds known at run time
    return create_model(base.__name__, __base__=base, __doc__=base.__doc__, rows=(listed, ()))


def unit_of(column: str) -> str:
    """The unit of a column, "" for one without."""
    return next((unit for end, unit in UNITS.items() if column == end or column.endswith(f"_{end}")), "")


def with_units(schema: Any) -> Any:  # noqa: ANN401 (any part of a JSON Schema)
    """A JSON Schema in which every property with a unit names it, as ``"unit": "ms"``."""
    match schema:
        case dict():
            found = {key: with_units(each) for key, each in schema.items()}
            if isinstance(properties := found.get("properties"), dict):
                named = {name: {**each, "unit": unit} for name, each in properties.items() if (unit := unit_of(name))}
                found["properties"] = properties | named
            return found
        case list():
            return [with_units(each) for each in schema]
    return schema
