"""A model and a budget made from the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from hermes_agent.config.settings import Settings
from hermes_agent.llm.budget import Budget, Prices
from hermes_agent.llm.capabilities import Capabilities, Endpoint, profile_for
from hermes_agent.llm.endpoint import EndpointModel
from hermes_agent.llm.failures import RetryPolicy
from hermes_agent.llm.model import ChatModel
from hermes_agent.llm.redact import RedactedModel, Redactor


def connect(settings: Settings, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> ChatModel | None:
    """The configured model, None when none is; ``hosts`` and ``users`` are masked too."""
    llm = settings.llm
    if llm.model is None:
        return None
    key, loopback = settings.key_text(), settings.is_loopback
    endpoint = Endpoint(llm.base_url, llm.model, key, llm.timeout_s, llm.temperature, loopback)
    model = EndpointModel(endpoint, capabilities_of(settings), RetryPolicy(llm.max_retries))
    return RedactedModel(model, Redactor(hosts, users)) if settings.redacts else model


def capabilities_of(settings: Settings) -> Capabilities:
    """The built-in profile of the endpoint with the user's corrections."""
    return profile_for(settings.llm.base_url, settings.llm.model or "", settings.llm.profile.model_dump())


def new_budget(settings: Settings, clock: Callable[[], float] = time.monotonic) -> Budget:
    """A fresh budget for one question."""
    allowed = settings.budget
    prices = None
    if allowed.prompt_per_million is not None and allowed.completion_per_million is not None:
        prices = Prices(allowed.prompt_per_million, allowed.completion_per_million, allowed.currency)
    return Budget(allowed.max_calls, allowed.max_tokens, allowed.max_seconds, allowed.max_cost, prices, clock)
