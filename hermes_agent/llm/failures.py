"""What went wrong at an endpoint, in one sentence a user can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_agent.llm.fallback import CONTEXT_OVERFLOW
from hermes_agent.llm.untrusted import one_line
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
