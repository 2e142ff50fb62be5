"""Failures of an endpoint: one sentence a user can act on, and when to try again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from hermes_agent.llm.capabilities import CONTEXT_OVERFLOW, Endpoint
from hermes_agent.llm.sanitize import one_line
from tools.errors import ModelError

if TYPE_CHECKING:
    from openai import APIError, APIStatusError

MAX_DETAIL_CHARS = 300
RETRIED_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
NEVER_RETRIED_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
SLICE_S = 0.1


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
