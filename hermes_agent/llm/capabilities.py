"""What an endpoint can do, as far as its address and the model's name tell beforehand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

from hermes_agent.llm.model import ModelRequest

Structured = Literal["json_schema", "forced_tool", "json_object", "plain"]
TokenLimit = Literal["max_tokens", "max_completion_tokens", "none"]

LADDER: tuple[Structured, ...] = ("json_schema", "forced_tool", "json_object", "plain")


@dataclass(frozen=True)
class Capabilities:
    """Which parts of the Chat Completions protocol may be used; the default asks for everything."""

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


@dataclass(frozen=True)
class _Profile:
    host: str  # pattern over host:port
    model: str  # pattern over the model's name
    changes: Mapping[str, object]


# Sources: the providers' own API references. A wrong entry costs one refused request: the adapter steps down
# by itself, so only what would fail silently has to be listed.
_PROFILES: tuple[_Profile, ...] = (
    _Profile(r"(^|\.)openai\.com(:\d+)?$", r"", {"token_limit": "max_completion_tokens"}),
    _Profile(r"(^|\.)openai\.com(:\d+)?$", r"^(o\d|gpt-5)", {"temperature": False}),
    _Profile(r"(^|\.)deepseek\.com(:\d+)?$", r"", {"structured": "json_object", "reasoning_echo": True}),
    # Ollama cuts a prompt that is too long without a word and ignores tool_choice.
    _Profile(r":11434$", r"", {"tool_choice": False}),
    _Profile(r"(^|\.)api\.mistral\.ai(:\d+)?$", r"", {"streamed_usage": False}),
)


def profile_for(base_url: str, model: str) -> Capabilities:
    """The built-in profile; later entries of the table refine earlier ones."""
    host = urlsplit(base_url).netloc.rpartition("@")[2].lower()
    found = Capabilities()
    for profile in _PROFILES:
        if re.search(profile.host, host) and re.search(profile.model, model.lower()):
            found = replace(found, **dict(profile.changes))  # type: ignore[arg-type]
    return found


def with_overrides(capabilities: Capabilities, overrides: Mapping[str, object]) -> Capabilities:
    """What the user's configuration says goes before what we know; None leaves a field as it is."""
    given = {name: value for name, value in overrides.items() if value is not None}
    return replace(capabilities, **given)  # type: ignore[arg-type]


REFUSALS = frozenset({400, 415, 422, 501})
REFUSALS_IF_NAMED = REFUSALS | {404, 500}
CONTEXT_OVERFLOW = re.compile(
    r"context.?(length|window|size)|maximum context|too many tokens|prompt is too long|exceeds? the (model|available)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Step:
    """The capabilities to try next and what was given up."""

    capabilities: Capabilities
    feature: str
    detail: str


@dataclass(frozen=True)
class _Rule:
    feature: str
    words: re.Pattern[str]
    used: Callable[[Capabilities, ModelRequest], bool]
    lower: Callable[[Capabilities], Step]


def step_down(capabilities: Capabilities, request: ModelRequest, status: int, message: str) -> Step | None:
    """The next smaller request after a refusal, or None when there is nothing to give up.

    A refusal that names a feature gives up that one. One that names none gives up the first that the
    request uses, the ones that cost least in quality first. Some answer 404 or 500 to tools they were not
    started for: these count only when the message names a feature.
    """
    if status not in REFUSALS_IF_NAMED:
        return None
    named = [rule for rule in _RULES if rule.words.search(message)]
    candidates = named or (list(_RULES) if status in REFUSALS else [])
    for rule in candidates:
        if rule.used(capabilities, request):
            return rule.lower(capabilities)
    return None


def structured_mode(capabilities: Capabilities) -> Structured:
    """The rung in use: a forced tool needs an endpoint that takes tools and a forced choice."""
    if capabilities.structured == "forced_tool" and not (capabilities.tools and capabilities.tool_choice):
        return "json_object"
    return capabilities.structured


def _lower_structured(capabilities: Capabilities) -> Step:
    mode = structured_mode(capabilities)
    below = replace(capabilities, structured=LADDER[LADDER.index(mode) + 1])
    return Step(below, "structured", f"{mode} is not accepted, using {structured_mode(below)}")


def _uses_structured(capabilities: Capabilities, request: ModelRequest) -> bool:
    return request.response_schema is not None and structured_mode(capabilities) != "plain"


def _lower_limit(capabilities: Capabilities) -> Step:
    below = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "none"}[capabilities.token_limit]
    changed = replace(capabilities, token_limit="none" if below == "none" else "max_completion_tokens")
    return Step(changed, "token_limit", f"{capabilities.token_limit} is not accepted, using {below}")


def _without(field: str) -> Callable[[Capabilities], Step]:
    def lower(capabilities: Capabilities) -> Step:
        changed = replace(capabilities, **{field: False})  # type: ignore[arg-type]
        return Step(changed, field, f"{field} is not accepted, going on without")

    return lower


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_RULES: tuple[_Rule, ...] = (
    _Rule(
        "streamed_usage",
        _words(r"stream_options|include_usage"),
        lambda c, _: c.streamed_usage,
        _without("streamed_usage"),
    ),
    _Rule(
        "parallel_switch",
        _words(r"parallel_tool_calls"),
        lambda c, r: bool(r.tools) and c.tools and not c.parallel_calls and c.parallel_switch,
        _without("parallel_switch"),
    ),
    _Rule("temperature", _words(r"temperature"), lambda c, _: c.temperature, _without("temperature")),
    _Rule(
        "token_limit",
        _words(r"max_tokens|max_completion_tokens"),
        lambda c, r: r.max_tokens is not None and c.token_limit != "none",
        _lower_limit,
    ),
    _Rule(
        "structured",
        _words(r"response_format|json_schema|json_object|json mode|structured|grammar|guided|schema|tool|function"),
        _uses_structured,
        _lower_structured,
    ),
    _Rule(
        "tool_choice",
        _words(r"tool.?choice"),
        lambda c, r: bool(r.tools) and c.tools and c.tool_choice and r.tool_choice == "none",
        _without("tool_choice"),
    ),
    _Rule(
        "tools",
        _words(r"tool|function"),
        lambda c, r: c.tools and bool(r.tools),
        _without("tools"),
    ),
)
