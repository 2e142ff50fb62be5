"""An answer that has to be a JSON object of a given form."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from hermes_agent.llm.budget import Budget
from hermes_agent.llm.model import ChatModel, Message, ModelRequest
from hermes_agent.llm.sanitize import one_line
from hermes_agent.llm.schema_check import complaints
from hermes_agent.llm.tool import json_object
from hermes_agent.llm.turn import listen
from tools.errors import ModelError

_FENCE = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n\s*```\s*$", re.DOTALL | re.IGNORECASE)
REPAIR = "That was not usable: {fault} Answer again with the corrected JSON object and nothing else."
FAULT_CHARS = 400


def ask_json(
    model: ChatModel, request: ModelRequest, budget: Budget, cancelled: Callable[[], bool]
) -> dict[str, object]:
    """The answer as an object that fits ``request.response_schema``.

    One repair is asked for when it does not fit; raises ModelError when the second answer does not either,
    when the call was cancelled, and BudgetExceeded when the budget does not allow the call.
    """
    fault = ""
    for attempt in range(2):
        budget.check()
        reply = listen(model, request, lambda: cancelled() or budget.out_of_time(), lambda _: None)
        budget.spend(reply.usage)
        if reply.reason == "cancelled":
            raise ModelError("The question was interrupted before the model had answered.")
        try:
            return _fitting(reply.text, request)
        except ModelError as error:
            fault = str(error)
        if attempt == 0:
            repair = Message("user", REPAIR.format(fault=one_line(fault, FAULT_CHARS)))
            request = replace(request, messages=(*request.messages, Message("assistant", reply.text), repair))
    raise ModelError(f"{model.name!r} gave no usable structured answer, even after one repair: {fault}")


def _fitting(text: str, request: ModelRequest) -> dict[str, object]:
    fenced = _FENCE.match(text)
    value = json_object(fenced[1] if fenced else text)
    if request.response_schema is not None:
        faults = complaints(value, request.response_schema.schema)
        if faults:
            raise ModelError(f"The answer does not fit its form: {one_line('; '.join(faults), FAULT_CHARS)}")
    return value
