"""What an endpoint can do, as far as its address and the model's name tell beforehand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

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
