"""An answer that has to fit a pydantic form: the strictest mode the endpoint takes, one repair, then ModelError."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from hermes_agent.llm.budget import Budget, BudgetExceeded, Limits, take_turn
from hermes_agent.llm.model import Cancelled, ChatModel, Degraded, Message, ModelRequest, ResponseSchema
from hermes_agent.llm.sanitize import one_line
from tools.agent_tools.tool import describe_faults
from tools.errors import ModelError

Form = TypeVar("Form", bound=BaseModel)

TRIES = 2
FAULT_CHARS = 400
REPAIR = (
    "That answer cannot be used: {fault} "
    "Answer again with the corrected JSON object and nothing else. It has to fit this JSON Schema:\n{schema}"
)
NOT_STRICT = frozenset({"title", "default", "discriminator", "minLength", "maxLength", "uniqueItems"})


@dataclass(frozen=True)
class Structured(Generic[Form]):
    """A valid answer; ``messages`` is the conversation with it at the end, ``note`` a sentence for people or empty."""

    value: Form
    messages: tuple[Message, ...]
    note: str


def ask_structured(
    model: ChatModel,
    messages: Sequence[Message],
    form: type[Form],
    budget: Budget,
    cancelled: Callable[[], bool],
    *,
    limits: Limits | None = None,
    emit: Callable[[Degraded], None] = lambda _: None,
) -> Structured[Form]:
    """The model's answer to ``messages`` as a ``form``; at most two calls, nothing is shown before it fits.

    The messages may come from a tool loop: when the last one is the model's and fits already, no call is made, and
    when it does not fit, the model is asked to correct it. Raises ModelError when there is no valid answer,
    BudgetExceeded when the budget does not allow the call, and Cancelled once ``cancelled``.
    """
    schema, conversation, note, calls = strict_schema(form), tuple(messages), "", 0
    while True:
        if conversation and conversation[-1].role == "assistant":
            try:
                return Structured(parse_form(conversation[-1].content, form), conversation, note)
            except ModelError as error:
                if calls == TRIES:
                    raise ModelError(f"{model.name!r} gave no usable answer, even after one repair.") from error
                conversation = (*conversation, _repair(str(error), schema))
        budget.check()
        request = ModelRequest(conversation, response_schema=ResponseSchema(form.__name__, schema))
        reply = take_turn(model, request, limits or Limits(), budget, cancelled, emit)
        if reply.reason == "cancelled":
            if reply.over_budget and not cancelled():
                raise BudgetExceeded(reply.over_budget)
            raise Cancelled("The question was cancelled.")
        conversation = (*conversation, Message("assistant", reply.text or "(nothing)"))
        note, calls = reply.over_budget, calls + 1


def parse_form(text: str, form: type[Form]) -> Form:
    """The JSON object in ``text``, also inside a code fence or prose, as a ``form``; raises ModelError."""
    first, last = text.find("{"), text.rfind("}")
    if first < 0 or last < first:
        raise ModelError(f"The model wrote no JSON object: {one_line(text, FAULT_CHARS) or 'nothing'}.")
    try:
        return form.model_validate_json(text[first : last + 1])
    except ValidationError as error:
        faults = one_line(describe_faults(error, form), FAULT_CHARS)
        raise ModelError(f"The answer does not fit its form: {faults}.") from error


def strict_schema(form: type[BaseModel]) -> dict[str, object]:
    """The JSON Schema of a form in the dialect of strict structured output: every field required, none added."""
    strict = _strict(form.model_json_schema())
    assert isinstance(strict, dict)
    return strict


def _strict(schema: object) -> object:
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:  # nothing may stand next to a reference
        return {"$ref": schema["$ref"]}
    strict: dict[str, object] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs") and isinstance(value, Mapping):
            strict[key] = {name: _strict(inner) for name, inner in value.items()}
        elif key in ("enum", "const"):
            strict[key] = value
        elif key not in NOT_STRICT:
            strict["anyOf" if key == "oneOf" else key] = _strict(value)
    if "properties" in strict:
        strict |= {"required": list(schema["properties"]), "additionalProperties": False}
    return strict


def _repair(fault: str, schema: Mapping[str, object]) -> Message:
    """The schema goes along: an endpoint may have accepted it and ignored it."""
    return Message("user", REPAIR.format(fault=fault, schema=json.dumps(schema, ensure_ascii=False)))
