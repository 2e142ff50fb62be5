"""One call to a model within its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hermes_agent.llm.budget import MESSAGE_OVERHEAD_TOKENS, Budget, BudgetExceeded, message_tokens, request_tokens
from hermes_agent.llm.model import ChatModel, Degraded, Message, ModelRequest, Reply, Usage

ELIDED = "(left out to save room; ask for it again or read it by its handle)"


@dataclass(frozen=True)
class Limits:
    """Bounds of one dialogue in addition to its budget."""

    max_rounds: int = 8  # calls of the model; in the last one it can no longer ask for tools
    tool_text_chars: int = 6_000  # of each result that the model gets to see
    max_repeats: int = 3  # repeated or failed calls in a row before the dialogue is stopped
    context_tokens: int | None = None  # what the prompt may grow to
    max_answer_tokens: int | None = None


def take_turn(
    model: ChatModel,
    request: ModelRequest,
    limits: Limits,
    budget: Budget,
    cancelled: Callable[[], bool],
    emit: Callable[[Degraded], None],
) -> Reply:
    """Run one call until it ends, is ``cancelled`` or out of time, and count its tokens; raises ModelError."""
    messages = request.messages
    if limits.context_tokens is not None:
        messages = fit_window(messages, limits.context_tokens - (limits.max_answer_tokens or 0))
    request = replace(request, messages=messages, max_tokens=limits.max_answer_tokens)
    reply = model.complete(request, lambda: cancelled() or budget.out_of_time())
    for each in reply.degraded:
        emit(each)
    written = message_tokens(reply.message()) - MESSAGE_OVERHEAD_TOKENS
    try:
        budget.spend(reply.usage or Usage(request_tokens(request), written, estimated=True))
    except BudgetExceeded as over:
        return replace(reply, over_budget=str(over))
    return reply


def fit_window(messages: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """The messages, the oldest tool results left out until ``tokens`` are enough; the latest one stays."""
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
