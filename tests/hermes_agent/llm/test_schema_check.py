"""Tool arguments against their JSON Schema."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from hermes_agent.llm.schema_check import complaints, refuse_unchecked


class Window(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first: int = Field(ge=0)
    last: int | None = None


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")
    metric: Literal["step_ms", "idle_ms"]
    ranks: list[int] = Field(default=[], max_length=2)
    window: Window | None = None
    name: str = Field(default="a", min_length=1, pattern="^[a-z]+$")
    share: float = Field(default=0.5, gt=0, le=1)


SCHEMA = Arguments.model_json_schema()


@pytest.mark.parametrize(
    "value",
    [
        {"metric": "step_ms"},
        {"metric": "idle_ms", "ranks": [0, 1], "window": {"first": 0, "last": None}, "share": 1},
        {"metric": "idle_ms", "window": None, "name": "abc"},
        {"metric": "step_ms", "ranks": [2.0]},
    ],
)
def test_values_that_fit_are_accepted(value: object) -> None:
    assert complaints(value, SCHEMA) == []


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({}, "metric is missing"),
        ([], "the value has to be object, not array"),
        ({"metric": "gpu"}, "metric has to be one of 'step_ms', 'idle_ms'"),
        ({"metric": "step_ms", "rank": 1}, "rank is unknown (known: metric, ranks, window, name, share)"),
        ({"metric": "step_ms", "ranks": ["0"]}, "ranks[0] has to be integer, not string"),
        ({"metric": "step_ms", "ranks": [True]}, "ranks[0] has to be integer, not boolean"),
        ({"metric": "step_ms", "ranks": [1, 2, 3]}, "ranks has 3 items, at most 2 are allowed"),
        ({"metric": "step_ms", "window": {"first": -1}}, "window.first has to be at least 0, not -1"),
        ({"metric": "step_ms", "name": ""}, "name has 0 characters, at least 1 are needed"),
        ({"metric": "step_ms", "name": "A"}, "name does not match ^[a-z]+$"),
        ({"metric": "step_ms", "share": 0}, "share has to be more than 0, not 0"),
        ({"metric": "step_ms", "share": 1.5}, "share has to be at most 1, not 1.5"),
    ],
)
def test_what_does_not_fit_is_named(value: object, fault: str) -> None:
    assert any(fault in complaint for complaint in complaints(value, SCHEMA))


def test_alternatives_are_told_apart() -> None:
    schema = {"oneOf": [{"type": "integer"}, {"type": "number"}]}
    assert complaints(1.5, schema) == []
    assert complaints(1, schema) == ["the value fits more than one of the alternatives"]
    assert complaints(1, {"const": True}) == ["the value has to be True"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "patternProperties": {}},
        {"type": "object", "properties": {"a": {"uniqueItems": True}}},
        {"type": "array", "items": {"multipleOf": 2}},
        {"anyOf": [{"type": "text"}]},
        {"$ref": "#/$defs/missing"},
    ],
)
def test_a_schema_that_cannot_be_checked_in_full_is_refused(schema: object) -> None:
    with pytest.raises(ValueError, match="the schema"):
        refuse_unchecked(schema)


def test_what_pydantic_writes_can_be_checked() -> None:
    refuse_unchecked(SCHEMA)
