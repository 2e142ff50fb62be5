"""One call to a model within its limits, collected to its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hermes_agent.llm import model as llm
from hermes_agent.llm.budget import Budget, BudgetExceeded, estimated_tokens, message_tokens, request_tokens

ELIDED = "(left out to save room; ask for it again or read it by its handle)"


@dataclass(frozen=True)
class Limits:
    """Bounds of one dialogue in addition to its budget."""

    max_rounds: int = 8  # calls of the model; in the last one it can no longer ask for tools
    tool_text_chars: int = 6_000  # of each result that the model gets to see
    max_repeats: int = 3  # repeated or failed calls in a row before the dialogue is stopped
    context_tokens: int | None = None  # what the prompt may grow to
    max_answer_tokens: int | None = None


@dataclass(frozen=True)
class Reply:
    """All that a model answered in one turn; ``over_budget`` is a sentence when the turn went over the budget."""

    text: str
    calls: tuple[llm.ToolCall, ...]
    reasoning: str | None
    usage: llm.Usage
    reason: llm.FinishReason
    over_budget: str = ""

    def message(self) -> llm.Message:
        """The reply as it goes back into the conversation.

        Arguments that are no JSON object are replaced by an empty one: servers parse them in the history
        and refuse the whole conversation otherwise. The tool's answer names the fault to the model.
        """
        calls = (call if _is_object(call.arguments_json) else replace(call, arguments_json="{}") for call in self.calls)
        return llm.Message("assistant", self.text, tuple(calls), reasoning=self.reasoning)


def take_turn(
    model: llm.ChatModel,
    request: llm.ModelRequest,
    limits: Limits,
    budget: Budget,
    cancelled: Callable[[], bool],
    emit: Callable[[llm.Degraded], None],
) -> Reply:
    """Run one call to its end and count its tokens; features that the endpoint refused are passed on to ``emit``.

    The call ends early once ``cancelled`` or the time of the budget is over. Raises ModelError.
    """
    messages = request.messages
    if limits.context_tokens is not None:
        messages = fit_window(messages, limits.context_tokens - (limits.max_answer_tokens or 0))
    request = replace(request, messages=messages, max_tokens=limits.max_answer_tokens)
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[llm.ToolCall] = []
    usage: llm.Usage | None = None
    reason: llm.FinishReason = "cancelled"
    for event in model.stream(request, lambda: cancelled() or budget.out_of_time()):
        match event:
            case llm.TextDelta():
                texts.append(event.text)
            case llm.Degraded():
                emit(event)
            case llm.ReasoningDelta():
                thoughts.append(event.text)
            case llm.ToolCall():
                calls.append(event)
            case llm.Usage():
                usage = event
            case llm.Finished():
                reason = event.reason
    text, reasoning = "".join(texts), "".join(thoughts)
    usage = usage or llm.Usage(request_tokens(request), estimated_tokens(text + reasoning), estimated=True)
    reply = Reply(text, tuple(calls), reasoning or None, usage, reason)
    try:
        budget.spend(usage)
    except BudgetExceeded as over:
        return replace(reply, over_budget=str(over))
    return reply


def fit_window(messages: Sequence[llm.Message], tokens: int) -> tuple[llm.Message, ...]:
    """The messages with the oldest tool results left out until about ``tokens`` are enough.

    Questions, answers and the latest tool result stay whatever they need: without them there is nothing to
    answer, and the endpoint's own limit speaks up.
    """
    fitted = list(messages)
    total = sum(map(message_tokens, fitted))
    results = [index for index, message in enumerate(fitted) if message.role == "tool"]
    for index in results[:-1]:
        if total <= tokens:
            break
        shorter = replace(fitted[index], content=ELIDED)
        total += message_tokens(shorter) - message_tokens(fitted[index])
        fitted[index] = shorter
    return tuple(fitted)


def _is_object(text: str) -> bool:
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)
