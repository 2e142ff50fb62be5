"""When to ask an endpoint again, and after how long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

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
