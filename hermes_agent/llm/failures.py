"""What went wrong at an endpoint, in one sentence a user can act on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from hermes_agent.llm.capabilities import CONTEXT_OVERFLOW
from hermes_agent.llm.sanitize import one_line
from tools.errors import ModelError

if TYPE_CHECKING:
    from openai import APIError, APIStatusError

MAX_DETAIL_CHARS = 300


class FailureSentences:
    """Words for the errors of one endpoint; the key never appears in them."""

    def __init__(self, base_url: str, model: str, timeout_s: float, api_key: str | None) -> None:
        self._url = base_url
        self._model = model
        self._timeout_s = timeout_s
        self._api_key = api_key

    def of(self, error: APIError) -> ModelError:
        """The sentence for an error of the client."""
        import openai

        match error:
            case openai.APITimeoutError():
                text = f"{self._url} sent nothing for {self._timeout_s:g} s; try again or raise llm.timeout_s."
            case openai.APIConnectionError():
                cause = f" ({self.detail(str(error.__cause__))})" if error.__cause__ else ""
                text = f"{self._url} cannot be reached{cause}; check that the server runs and llm.base_url is right."
            case openai.APIStatusError():
                text = self._of_status(error)
            case _:
                text = f"{self._url} reported an error while it answered: {self.detail(error.message)}; ask again."
        return ModelError(text)

    def broken_off(self) -> ModelError:
        """The sentence for a stream that was cut after a part of the answer had been shown."""
        return ModelError(f"The answer from {self._url} broke off in the middle; ask again.")

    def not_a_stream(self, content_type: str) -> ModelError:
        """The sentence for a server that answered with a page or a plain document."""
        kind = one_line(content_type, 60) or "no content type"
        return ModelError(
            f"{self._url} answered with {kind} instead of a stream of events; check llm.base_url "
            "(it usually ends in /v1) and that the server can stream."
        )

    def detail(self, message: str) -> str:
        """A server's own words, made harmless, short and free of the key."""
        if self._api_key:
            message = message.replace(self._api_key, "***")
        return one_line(message, MAX_DETAIL_CHARS)

    def _of_status(self, error: APIStatusError) -> str:
        said = f"HTTP {error.status_code}: {self.detail(error.message)}"
        match error.status_code:
            case 401 | 403:
                return f"{self._url} refused the API key ({said}); set HERMES_DX_API_KEY to a key that it accepts."
            case 404:
                return (
                    f"{self._url} knows no model {self._model!r} or has no chat completions there ({said}); "
                    "check llm.model and llm.base_url (it usually ends in /v1)."
                )
            case 429:
                return f"{self._url} is rate-limited or out of quota ({said}); wait, or choose another endpoint."
            case status if 300 <= status < 400:
                target = one_line(error.response.headers.get("location", "elsewhere"), MAX_DETAIL_CHARS)
                return f"{self._url} redirects to {target}; set llm.base_url to the final address."
            case status if status >= 500:
                return f"{self._url} failed on its side ({said}); try again later."
        if CONTEXT_OVERFLOW.search(error.message):
            return f"The question is too long for {self._model!r} ({said}); choose a model with a larger context."
        return f"{self._url} did not accept the request ({said})."


if TYPE_CHECKING:
    from openai import APIError

RETRIED_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
NEVER_RETRIED_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
SLICE_S = 0.1


@dataclass(frozen=True)
class RetryPolicy:
    """At most ``max_retries`` further attempts, doubling the wait unless the server names one."""

    max_retries: int = 3
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time

    def wait_s(self, error: APIError, attempt: int) -> float | None:
        """Seconds to wait before attempt ``attempt + 1`` (0 is the first), or None to give up."""
        if attempt >= self.max_retries or not _passes(error):
            return None
        asked = self._asked_for(error)
        if asked is None:
            return float(min(FIRST_WAIT_S * 2**attempt, LONGEST_WAIT_S))
        return asked if asked <= LONGEST_WAIT_S else None

    def pause(self, seconds: float, cancelled: Callable[[], bool]) -> bool:
        """Sleep in short slices; False when the user broke it off meanwhile."""
        left = seconds
        while left > 0:
            if cancelled():
                return False
            self.sleep(min(left, SLICE_S))
            left -= SLICE_S
        return not cancelled()

    def _asked_for(self, error: APIError) -> float | None:
        import openai

        if not isinstance(error, openai.APIStatusError):
            return None
        value = error.response.headers.get("retry-after", "")
        try:
            seconds = float(value)
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - self.now()
            except (ValueError, OverflowError):
                return None
        return max(seconds, 0.0) if seconds == seconds else None


def _passes(error: APIError) -> bool:
    """Whether the failure is of a kind that tends to pass by itself."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in RETRIED_STATUSES and error.code not in NEVER_RETRIED_CODES
    return False
