"""How many tokens a text will be, when nobody has counted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from hermes_agent.llm.model import Message, ModelRequest, Usage
from tools.errors import ModelError

# English and code run at about four characters a token in the usual byte-pair vocabularies; other scripts
# come nearer to one. Overestimating is the safe side for a budget and for a context window.
ASCII_CHARS_PER_TOKEN = 4
MESSAGE_OVERHEAD_TOKENS = 4


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
    """Tokens of the whole prompt, tool descriptions included."""
    tools = sum(
        estimated_tokens(tool.name + tool.description + json.dumps(tool.schema, default=str)) for tool in request.tools
    )
    return sum(map(message_tokens, request.messages)) + tools


TOKENS_PER_PRICE = 1_000_000


class BudgetExceeded(ModelError):
    """The question has used up what it may cost."""


@dataclass(frozen=True)
class Prices:
    """What the endpoint charges per million tokens, in ``currency``."""

    prompt_per_million: float
    completion_per_million: float
    currency: str = "USD"

    def cost(self, usage: Usage) -> float:
        """Money for one call."""
        prompt = usage.prompt_tokens * self.prompt_per_million
        return (prompt + usage.completion_tokens * self.completion_per_million) / TOKENS_PER_PRICE


@dataclass(frozen=True)
class Spent:
    """What has been used so far; ``cost`` is None without prices."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cost: float | None
    estimated: bool  # True when any of the token counts is an estimate


class Budget:
    """Counts what the calls of one question use and refuses more than was allowed; None is no limit."""

    def __init__(
        self,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_seconds: float | None = None,
        max_cost: float | None = None,
        prices: Prices | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_cost is not None and prices is None:
            raise ValueError("a limit on cost needs prices")
        self._max_calls = max_calls
        self._max_tokens = max_tokens
        self._max_seconds = max_seconds
        self._max_cost = max_cost
        self._prices = prices
        self._clock = clock
        self._start = clock()
        self._calls = self._prompt = self._completion = 0
        self._cost = 0.0
        self._estimated = False

    @property
    def spent(self) -> Spent:
        """What has been used up to now."""
        cost = self._cost if self._prices else None
        seconds = self._clock() - self._start
        return Spent(self._calls, self._prompt, self._completion, seconds, cost, self._estimated)

    def out_of_time(self) -> bool:
        """Whether the seconds are over; cheap enough to ask between two pieces of a stream."""
        return self._max_seconds is not None and self._clock() - self._start >= self._max_seconds

    def check(self) -> None:
        """Ask before a call: raises BudgetExceeded when nothing is left for another one."""
        self._check_seconds()
        if self._max_calls is not None and self._calls >= self._max_calls:
            raise _exceeded(f"{self._calls} of {self._max_calls} model calls are used", "max_calls")
        self._check_amounts(full=True)

    def spend(self, usage: Usage) -> None:
        """Count one finished call; raises BudgetExceeded when it went over a limit."""
        self._calls += 1
        self._prompt += usage.prompt_tokens
        self._completion += usage.completion_tokens
        self._estimated |= usage.estimated
        self._cost += self._prices.cost(usage) if self._prices else 0.0
        if self._max_calls is not None and self._calls > self._max_calls:
            raise _exceeded(f"{self._calls} model calls were made and {self._max_calls} are allowed", "max_calls")
        self._check_seconds()
        self._check_amounts(full=False)

    def _check_seconds(self) -> None:
        if self.out_of_time():
            seconds = self._clock() - self._start
            raise _exceeded(f"{seconds:.0f} s have passed and {self._max_seconds:g} s are allowed", "max_seconds")

    def _check_amounts(self, full: bool) -> None:
        tokens = self._prompt + self._completion
        if self._max_tokens is not None and (tokens > self._max_tokens or (full and tokens == self._max_tokens)):
            counted = "an estimated " if self._estimated else ""
            raise _exceeded(f"{counted}{tokens:,} of {self._max_tokens:,} tokens are used", "max_tokens")
        if self._max_cost is not None and (self._cost > self._max_cost or (full and self._cost == self._max_cost)):
            currency = self._prices.currency if self._prices else ""
            raise _exceeded(f"{self._cost:.4f} of {self._max_cost:g} {currency} is spent", "max_cost")


def _exceeded(what: str, setting: str) -> BudgetExceeded:
    return BudgetExceeded(f"The budget of this question is used up: {what}; raise budget.{setting} to allow more.")
