"""An endpoint: what it supports, what is given up when it refuses a request, and its failures in one sentence."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from hermes_agent.llm.model import Degraded, ModelRequest
from hermes_agent.llm.sanitize import one_line
from tools.errors import ModelError

if TYPE_CHECKING:
    from openai import APIError, APIStatusError

Structured = Literal["json_schema", "forced_tool", "json_object", "plain"]
TokenLimit = Literal["max_tokens", "max_completion_tokens", "none"]

# From the strictest rung down; every other feature is either used or not.
LADDERS: Mapping[str, tuple[str, ...]] = {
    "structured": ("json_schema", "forced_tool", "json_object", "plain"),
    "token_limit": ("max_tokens", "max_completion_tokens", "none"),
}

# Pattern over host:port, pattern over the model's name, and what differs from the default; later rows refine earlier
# ones. Sources: the providers' own API references. A wrong entry costs one refused request: the adapter steps down by
# itself, so only what would fail silently has to be listed.
_PROFILES: tuple[tuple[str, str, Mapping[str, object]], ...] = (
    (r"(^|\.)openai\.com(:\d+)?$", r"", {"token_limit": "max_completion_tokens"}),
    (r"(^|\.)openai\.com(:\d+)?$", r"^(o\d|gpt-5)", {"temperature": False}),
    (r"(^|\.)deepseek\.com(:\d+)?$", r"", {"structured": "json_object", "reasoning_echo": True}),
    # Ollama cuts a prompt that is too long without a word and ignores tool_choice.
    (r":11434$", r"", {"tool_choice": False}),
    (r"(^|\.)api\.mistral\.ai(:\d+)?$", r"", {"streamed_usage": False}),
)
REFUSALS = frozenset({400, 415, 422, 501})
REFUSALS_IF_NAMED = REFUSALS | {404, 500}
CONTEXT_OVERFLOW = re.compile(
    r"context.?(length|window|size)|maximum context|too many tokens|prompt is too long|exceeds? the (model|available)",
    re.IGNORECASE,
)
MAX_DETAIL_CHARS = 300
RETRIED_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
NEVER_RETRIED_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
SLICE_S = 0.1


@dataclass(frozen=True)
class Endpoint:
    """The address of a model. ``timeout_s`` is the longest silence, not the longest answer."""

    base_url: str
    model: str
    api_key: str | None = None
    timeout_s: float = 60.0
    temperature: float | None = None
    loopback: bool = False  # then no proxy is asked


@dataclass(frozen=True)
class Capabilities:
    """Parts of the Chat Completions protocol that may be used; the default asks for everything."""

    structured: Structured = "json_schema"  # the strictest way to get JSON
    tools: bool = True
    tool_choice: bool = True  # accepts "none" and a forced tool
    parallel_calls: bool = True  # False: one call a turn, further ones are dropped
    parallel_switch: bool = True  # accepts the parameter that turns parallel calls off
    streamed_usage: bool = True
    reasoning_echo: bool = False  # wants its own reasoning back with a turn that called tools
    token_limit: TokenLimit = "max_tokens"
    temperature: bool = True
    context_window: int | None = None  # tokens; None is unknown


def profile_for(base_url: str, model: str, corrections: Mapping[str, object] | None = None) -> Capabilities:
    """The built-in profile of an endpoint with the user's ``corrections``; a correction of None changes nothing."""
    host = urlsplit(base_url).netloc.rpartition("@")[2].lower()
    changes: dict[str, object] = {}
    for host_pattern, model_pattern, row in _PROFILES:
        if re.search(host_pattern, host) and re.search(model_pattern, model.lower()):
            changes |= row
    changes |= {name: value for name, value in (corrections or {}).items() if value is not None}
    return _changed(Capabilities(), changes)


def _changed(capabilities: Capabilities, changes: Mapping[str, object]) -> Capabilities:
    return replace(capabilities, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Step:
    """The capabilities to try next, and what was given up."""

    capabilities: Capabilities
    degraded: Degraded


def structured_mode(capabilities: Capabilities) -> Structured:
    """The rung in use: a forced tool needs an endpoint that takes tools and a forced choice."""
    if capabilities.structured == "forced_tool" and not (capabilities.tools and capabilities.tool_choice):
        return "json_object"
    return capabilities.structured


def step_down(capabilities: Capabilities, request: ModelRequest, status: int, message: str) -> Step | None:
    """The next smaller request, without what the refusal names, else what costs least; None without any."""
    if status not in REFUSALS_IF_NAMED:
        return None
    named = [feature for feature, (words, _) in _FEATURES.items() if re.search(words, message, re.IGNORECASE)]
    for feature in named or (_FEATURES if status in REFUSALS else ()):
        if _FEATURES[feature][1](capabilities, request):
            return _lowered(capabilities, feature)
    return None


def _lowered(capabilities: Capabilities, feature: str) -> Step:
    ladder = LADDERS.get(feature)
    if ladder is None:
        detail = f"{feature} is not accepted, going on without"
        return Step(_changed(capabilities, {feature: False}), Degraded(feature, detail))
    rung = _rung(capabilities, feature)
    below = _changed(capabilities, {feature: ladder[ladder.index(rung) + 1]})
    return Step(below, Degraded(feature, f"{rung} is not accepted, using {_rung(below, feature)}"))


def _rung(capabilities: Capabilities, feature: str) -> str:
    return structured_mode(capabilities) if feature == "structured" else capabilities.token_limit


# By feature: the words by which a refusal names it, and whether a request uses it; what costs least comes first.
_FEATURES: Mapping[str, tuple[str, Callable[[Capabilities, ModelRequest], bool]]] = {
    "streamed_usage": (r"stream_options|include_usage", lambda c, _: c.streamed_usage),
    "parallel_switch": (
        r"parallel_tool_calls",
        lambda c, r: bool(r.tools) and c.tools and not c.parallel_calls and c.parallel_switch,
    ),
    "temperature": (r"temperature", lambda c, _: c.temperature),
    "token_limit": (
        r"max_tokens|max_completion_tokens",
        lambda c, r: r.max_tokens is not None and c.token_limit != "none",
    ),
    "structured": (
        r"response_format|json_schema|json_object|json mode|structured|grammar|guided|schema|tool|function",
        lambda c, r: r.response_schema is not None and structured_mode(c) != "plain",
    ),
    "tool_choice": (
        r"tool.?choice",
        lambda c, r: bool(r.tools) and c.tools and c.tool_choice and r.tool_choice == "none",
    ),
    "tools": (r"tool|function", lambda c, r: bool(r.tools) and c.tools),
}


def failure(error: APIError, endpoint: Endpoint, begun: bool = False) -> ModelError:
    """The sentence for an error of the client, never with the key in it; ``begun`` when part of the answer had come."""
    import openai

    where = endpoint.base_url
    match error:
        case openai.APIConnectionError() if isinstance(error.__cause__, ModelError):
            return error.__cause__
        case openai.APIConnectionError() if begun:
            text = f"The answer from {where} broke off in the middle; ask again."
        case openai.APITimeoutError():
            text = f"{where} sent nothing for {endpoint.timeout_s:g} s; try again or raise llm.timeout_s."
        case openai.APIConnectionError():
            cause = f" ({_detail(str(error.__cause__), endpoint)})" if error.__cause__ else ""
            text = f"{where} cannot be reached{cause}; check that the server runs and llm.base_url is right."
        case openai.APIStatusError():
            text = f"{where} {_refusal(error, endpoint)}"
        case _:
            text = f"{where} reported an error while it answered: {_detail(error.message, endpoint)}; ask again."
    return ModelError(text)


def _refusal(error: APIStatusError, endpoint: Endpoint) -> str:
    said, model = f"HTTP {error.status_code}: {_detail(error.message, endpoint)}", repr(endpoint.model)
    match error.status_code:
        case 401 | 403:
            return f"refused the API key ({said}); set HERMES_DX_API_KEY to a key that it accepts."
        case 404:
            return (
                f"knows no model {model} or has no chat completions there ({said}); "
                "check llm.model and llm.base_url (it usually ends in /v1)."
            )
        case 429:
            return f"is rate-limited or out of quota ({said}); wait, or choose another endpoint."
        case status if 300 <= status < 400:
            target = one_line(error.response.headers.get("location", "elsewhere"), MAX_DETAIL_CHARS)
            return f"redirects to {target}; set llm.base_url to the final address."
        case status if status >= 500:
            return f"failed on its side ({said}); try again later."
    if CONTEXT_OVERFLOW.search(error.message):
        return f"finds the question too long for {model} ({said}); choose a model with a larger context."
    return f"did not accept the request ({said})."


def _detail(message: str, endpoint: Endpoint) -> str:
    """A server's own words, made harmless, short and free of the key."""
    return one_line(message.replace(endpoint.api_key, "***") if endpoint.api_key else message, MAX_DETAIL_CHARS)


@dataclass(frozen=True)
class RetryPolicy:
    """At most ``max_retries`` further attempts, doubling the wait unless the server names one."""

    max_retries: int = 3
    sleep: Callable[[float], None] = time.sleep

    def wait_s(self, error: APIError, attempt: int) -> float | None:
        """Seconds to wait before attempt ``attempt + 1`` (0 is the first), or None to give up."""
        import openai

        if attempt >= self.max_retries or not isinstance(error, openai.APIStatusError):
            return None
        if error.status_code not in RETRIED_STATUSES or error.code in NEVER_RETRIED_CODES:
            return None
        asked = self._asked_for(error.response.headers.get("retry-after", ""))
        if asked is None:
            return float(min(FIRST_WAIT_S * 2**attempt, LONGEST_WAIT_S))
        return asked if asked <= LONGEST_WAIT_S else None

    def pause(self, seconds: float, cancelled: Callable[[], bool]) -> bool:
        """Sleep in short slices; False when the user broke it off meanwhile."""
        left = seconds
        while left > 0 and not cancelled():
            self.sleep(min(left, SLICE_S))
            left -= SLICE_S
        return not cancelled()

    def _asked_for(self, header: str) -> float | None:
        """Seconds of a Retry-After header, which is a number or a date."""
        try:
            seconds = float(header)
        except ValueError:
            try:
                seconds = parsedate_to_datetime(header).timestamp() - time.time()
            except (ValueError, OverflowError):
                return None
        return max(seconds, 0.0) if seconds == seconds else None
