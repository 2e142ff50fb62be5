"""Answers that have to fit a form."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from hermes_agent.llm.budget import Budget, BudgetExceeded
from hermes_agent.llm.capabilities import Capabilities, Endpoint
from hermes_agent.llm.endpoint import EndpointModel
from hermes_agent.llm.model import Cancelled, ChatModel, Degraded, Message, ToolCall
from hermes_agent.llm.structured import Structured, ask_structured, parse_form, strict_schema
from tests.hermes_agent.llm.fake_endpoint import Answer, call_chunk, end_chunk, refused, said, serving
from tests.hermes_agent.llm.scripted import ScriptedModel
from tools.errors import ModelError


class Place(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rank: int = Field(ge=0)
    why: str | None = Field(default=None, max_length=20)


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["slow", "fine"] = "slow"
    places: list[Place] = []


RANK_3 = Place(rank=3)
ASK = (Message("user", "Which rank?"),)


def never() -> bool:
    return False


def asked(model: ChatModel, budget: Budget | None = None, messages: tuple[Message, ...] = ASK) -> Structured[Place]:
    return ask_structured(model, messages, Place, budget or Budget(), never)


@pytest.mark.parametrize(
    "text", ['{"rank": 3}', ' \n{"rank": 3}\n', '```json\n{"rank": 3}\n```', 'Here it is: {"rank": 3}. Done.']
)
def test_an_object_that_fits_is_taken(text: str) -> None:
    answer = asked(ScriptedModel([text]))
    assert (answer.value, answer.note) == (RANK_3, "")
    assert answer.messages == (*ASK, Message("assistant", text))


def test_one_repair_is_asked_for_with_the_fault_and_the_schema() -> None:
    model = ScriptedModel(['{"rank": "three"}', '{"rank": 3}'])
    assert asked(model, Budget(max_calls=2)).value == RANK_3
    repair = model.requests[1].messages[-1].content
    assert "rank: should be a valid integer" in repair
    assert '"additionalProperties": false' in repair


@pytest.mark.parametrize(
    ("form", "text", "fault"),
    [
        (Place, "", "no JSON object: nothing."),
        (Place, "}{", "no JSON object"),
        (Place, '{"rank": ', "no JSON object"),
        (Place, "{" * 100_000 + "}", "the whole: Invalid JSON"),
        (Place, '{"rank": NaN}', "rank: should be a finite number"),
        (Place, '{"why": null}', "rank is missing"),
        (Place, '{"rank": 1, "step": 2}', r"step is unknown \(known: rank, why\)"),
        (Verdict, '{"kind": "bad"}', "kind: should be 'slow' or 'fine'"),
        (Verdict, '{"places": [{"rank": -1}]}', "places.0.rank: should be greater than or equal to 0"),
    ],
)
def test_what_does_not_fit_is_named(form: type[BaseModel], text: str, fault: str) -> None:
    with pytest.raises(ModelError, match=fault):
        parse_form(text, form)


def test_a_second_fault_is_an_error_and_not_a_third_try() -> None:
    model = ScriptedModel(["It is rank 3.", "Rank 3!", '{"rank": 3}'])
    with pytest.raises(ModelError, match="no usable answer, even after one repair"):
        asked(model)
    assert len(model.requests) == 2


def test_the_budget_bounds_the_repair_and_not_the_answer_that_used_it_up() -> None:
    with pytest.raises(BudgetExceeded):
        asked(ScriptedModel(["no", "no"]), Budget(max_calls=1))
    answer = asked(ScriptedModel(['{"rank": 3}']), Budget(max_tokens=5))
    assert answer.value == RANK_3
    assert "of 5 tokens are used" in answer.note


def test_an_interrupted_question_has_no_answer() -> None:
    with pytest.raises(Cancelled, match="cancelled"):
        ask_structured(ScriptedModel(['{"rank": 3}']), ASK, Place, Budget(), lambda: True)


def test_the_time_of_the_budget_interrupts_an_answer_in_the_middle() -> None:
    ticks = iter(range(1000))
    model = ScriptedModel([f"{{{' ' * 100}}}"])
    with pytest.raises(BudgetExceeded, match="are allowed"):
        asked(model, Budget(max_seconds=20, clock=lambda: next(ticks)))
    assert next(ticks) < 60


TOOL_LOOP = (
    *ASK,
    Message("assistant", "", (ToolCall("a1", "steps", '{"rank": 3}'),)),
    Message("tool", "rank 3 is slow", tool_call_id="a1"),
)


def test_the_last_answer_of_a_tool_loop_is_taken_when_it_fits_and_corrected_when_it_does_not() -> None:
    fits = (*TOOL_LOOP, Message("assistant", '{"rank": 3}'))
    assert asked(ScriptedModel([]), messages=fits) == Structured(RANK_3, fits, "")
    prose = (*TOOL_LOOP, Message("assistant", "It is rank 3."))
    model = ScriptedModel(['{"rank": 3}'])
    assert asked(model, messages=prose).value == RANK_3
    assert "wrote no JSON object: It is rank 3." in model.requests[0].messages[-1].content


def test_the_ladder_steps_down_on_refusals_and_what_worked_is_kept_for_the_session() -> None:
    def picky(body: dict[str, Any]) -> Answer:
        assert "tools" not in body or "response_format" not in body
        assert [message["role"] for message in body["messages"]][-3:] == ["user", "assistant", "user"]
        if "response_format" in body:
            return refused(400, f"response_format {body['response_format']['type']} is unavailable now")
        chunks = [call_chunk(0, '{"rank": ', "a1", "Place"), call_chunk(0, "3}"), end_chunk("tool_calls")]
        return Answer(chunks=chunks) if "tool_choice" in body else said("no")

    notices: list[Degraded] = []
    with serving(picky) as endpoint:
        model = EndpointModel(Endpoint(endpoint.url, "tiny", loopback=True), Capabilities())
        for _ in range(2):
            answer = ask_structured(model, TOOL_LOOP, Place, Budget(), never, emit=notices.append)
            assert answer.value == RANK_3
    assert len(endpoint.bodies) == 3
    form = endpoint.bodies[0]["response_format"]["json_schema"]
    assert (form["name"], form["strict"], form["schema"]) == ("Place", True, strict_schema(Place))
    assert [notice.feature for notice in notices] == ["structured"]


def test_the_strict_schema_requires_every_field_and_allows_no_other() -> None:
    place = {
        "type": "object",
        "properties": {
            "rank": {"type": "integer", "minimum": 0},
            "why": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["rank", "why"],
        "additionalProperties": False,
    }
    assert strict_schema(Place) == place
    assert strict_schema(Verdict) == {
        "$defs": {"Place": place},
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["slow", "fine"]},
            "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        },
        "required": ["kind", "places"],
        "additionalProperties": False,
    }
