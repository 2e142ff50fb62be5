"""The tokens, calls, time and money that one question may use, and one call to a model within them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hermes_agent.llm.model import ChatModel, Degraded, Message, ModelRequest, Reply, Usage
from tools.errors import ModelError

# English and code run at about four characters a token in the usual byte-pair vocabularies; other scripts
# come nearer to one. Overestimating is the safe side for a budget and for a context window.
ASCII_CHARS_PER_TOKEN = 4
MESSAGE_OVERHEAD_TOKENS = 4
TOKENS_PER_PRICE = 1_000_000
ELIDED = "(left out to save room; ask for it again or read it by its handle)"


def estimated_tokens(text: str) -> int:
    """Tokens of ``text``, rounded up; 0 only for the empty text."""
    other = len(text) - len(text.encode("ascii", "ignore"))
    return -(-(len(text) - other) // ASCII_CHARS_PER_TOKEN) + other


def message_tokens(message: Message) -> int:
    """Tokens one message adds to a prompt, its tool calls included."""
    calls = sum(estimated_tokens(call.name) + estimated_tokens(call.arguments_json) for call in message.tool_calls)
    reasoning = estimated_tokens(message.reasoning or "")
    return MESSAGE_OVERHEAD_TOKENS + estimated_tokens(message.content) + calls + reasoning


def request_tokens(request: ModelRequest) -> int:
    """Tokens of the whole prompt, tool descriptions and answer schema included."""
    schemas = [tool.name + tool.description + json.dumps(tool.schema, default=str) for tool in request.tools]
    if request.response_schema is not None:
        schemas.append(json.dumps(request.response_schema.schema, default=str))
    return sum(map(message_tokens, request.messages)) + sum(map(estimated_tokens, schemas))


class BudgetExceeded(ModelError):
    """The question has used up what it may cost."""


@dataclass(frozen=True)
class Prices:
    """Prices of the endpoint per million tokens, in ``currency``."""

    prompt_per_million: float
    completion_per_million: float
    currency: str = "USD"

    def cost(self, usage: Usage) -> float:
        """Money for one call."""
        prompt = usage.prompt_tokens * self.prompt_per_million
        return (prompt + usage.completion_tokens * self.completion_per_million) / TOKENS_PER_PRICE


@dataclass(frozen=True)
class Spent:
    """Use so far; ``cost`` is None without prices."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cost: float | None
    estimated: bool  # True when any of the token counts is an estimate


@dataclass
class Budget:
    """Counts what the calls of one question use and refuses more than was allowed; None is no limit."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None
    prices: Prices | None = None
    clock: Callable[[], float] = time.monotonic
    _calls: list[Usage] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.max_cost is not None and self.prices is None:
            raise ValueError("a limit on cost needs prices")
        self._start = self.clock()

    @property
    def spent(self) -> Spent:
        """Use up to now."""
        calls, prices = self._calls, self.prices
        return Spent(
            len(calls),
            sum(call.prompt_tokens for call in calls),
            sum(call.completion_tokens for call in calls),
            self.clock() - self._start,
            sum(map(prices.cost, calls)) if prices else None,
            any(call.estimated for call in calls),
        )

    def out_of_time(self) -> bool:
        """Return whether the seconds are over; cheap enough to ask between two pieces of a stream."""
        return self.max_seconds is not None and self.clock() - self._start >= self.max_seconds

    def last_call(self, tokens: int) -> bool:
        """Return whether at most one more call is allowed, where each takes about so many tokens."""
        now = self.spent
        left = None if self.max_tokens is None else self.max_tokens - now.prompt_tokens - now.completion_tokens
        return (self.max_calls is not None and self.max_calls - now.calls <= 1) or (
            left is not None and left < 2 * tokens
        )

    def check(self) -> None:
        """Raise BudgetExceeded when nothing is left for another call."""
        self._check(full=True)

    def spend(self, usage: Usage) -> None:
        """Count one finished call; raises BudgetExceeded when it went over a limit."""
        self._calls.append(usage)
        self._check(full=False)

    def _check(self, full: bool) -> None:
        """A limit that is just reached counts when ``full``; time that is just over always does."""
        now = self.spent
        tokens, counted = now.prompt_tokens + now.completion_tokens, "an estimated " if now.estimated else ""
        currency = self.prices.currency if self.prices else ""
        limits: tuple[tuple[str, float, float | None, str], ...] = (
            ("max_seconds", now.seconds, self.max_seconds, "{:.0f} s have passed and {:g} s are allowed"),
            ("max_calls", now.calls, self.max_calls, "{} of {} model calls are used"),
            ("max_tokens", tokens, self.max_tokens, counted + "{:,} of {:,} tokens are used"),
            ("max_cost", now.cost or 0.0, self.max_cost, "{:.4f} of {:g} " + currency + " is spent"),
        )
        for setting, used, limit, form in limits:
            reached = used == limit and (full or setting == "max_seconds")
            if limit is not None and (used > limit or reached):
                what = form.format(used, limit)
                raise BudgetExceeded(
                    f"The budget of this question is used up: {what}; raise budget.{setting} to allow more."
                )


@dataclass(frozen=True)
class Limits:
    """Bounds of one dialogue in addition to its budget."""

    max_rounds: int = 8  # calls of the model; in the last one it can no longer ask for tools
    tool_text_chars: int = 6_000  # of each result that the model gets to see
    max_repeats: int = 3  # repeated or failed calls in a row before the dialogue is stopped
    context_tokens: int | None = None  # what the prompt may grow to
    max_answer_tokens: int | None = None
    short_schemas: bool = False  # of tools, for a small context window


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
        fixed = request_tokens(replace(request, messages=())) + (limits.max_answer_tokens or 0)
        messages = fit_window(messages, limits.context_tokens - fixed)
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
