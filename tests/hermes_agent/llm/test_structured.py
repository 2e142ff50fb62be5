"""Answers that have to be a JSON object of a given form."""

from __future__ import annotations

import pytest

from hermes_agent.llm.budget import Budget, BudgetExceeded
from hermes_agent.llm.model import Message, ModelRequest, ResponseSchema
from hermes_agent.llm.scripted import ScriptedModel
from hermes_agent.llm.structured import ask_json
from tools.errors import ModelError

FORM = {"type": "object", "properties": {"rank": {"type": "integer"}}, "required": ["rank"]}
ASK = ModelRequest((Message("user", "Which rank?"),), response_schema=ResponseSchema("answer", FORM))


def never() -> bool:
    return False


@pytest.mark.parametrize("text", ['{"rank": 3}', ' \n{"rank": 3}\n', '```json\n{"rank": 3}\n```'])
def test_an_object_that_fits_is_taken(text: str) -> None:
    assert ask_json(ScriptedModel([text]), ASK, Budget(), never) == {"rank": 3}


def test_one_repair_is_asked_for_with_the_fault() -> None:
    model = ScriptedModel(['{"rank": "three"}', '{"rank": 3}'])
    assert ask_json(model, ASK, Budget(max_calls=2), never) == {"rank": 3}
    assert "rank has to be integer, not string" in model.requests[1].messages[-1].content


def test_a_second_fault_is_an_error_and_not_a_third_try() -> None:
    model = ScriptedModel(["It is rank 3.", "Rank 3!", '{"rank": 3}'])
    with pytest.raises(ModelError, match="no usable structured answer, even after one repair"):
        ask_json(model, ASK, Budget(), never)
    assert len(model.requests) == 2


def test_the_budget_bounds_the_repair() -> None:
    with pytest.raises(BudgetExceeded):
        ask_json(ScriptedModel(["no", "no"]), ASK, Budget(max_calls=1), never)


def test_an_interrupted_question_has_no_answer() -> None:
    with pytest.raises(ModelError, match="interrupted"):
        ask_json(ScriptedModel(['{"rank": 3}']), ASK, Budget(), lambda: True)


def test_the_time_of_the_budget_interrupts_an_answer_in_the_middle() -> None:
    ticks = iter(range(1000))
    model = ScriptedModel([["{", *" " * 100, "}"]])
    with pytest.raises(BudgetExceeded, match="are allowed"):
        ask_json(model, ASK, Budget(max_seconds=20, clock=lambda: next(ticks)), never)
    assert next(ticks) < 60
