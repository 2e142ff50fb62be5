"""Which feature to give up when an endpoint refuses a request."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from hermes_agent.llm.capabilities import LADDER, Capabilities, Structured
from hermes_agent.llm.model import ModelRequest

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
        lambda c, r: c.tools and (bool(r.tools) or any(m.tool_calls or m.role == "tool" for m in r.messages)),
        _without("tools"),
    ),
)
