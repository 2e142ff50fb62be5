"""A model behind an OpenAI-compatible endpoint, made from the settings with its budget."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from hermes_agent.config.settings import Settings
from hermes_agent.llm.budget import Budget, Prices, request_tokens
from hermes_agent.llm.capabilities import (
    CONTEXT_OVERFLOW,
    Capabilities,
    Endpoint,
    RetryPolicy,
    failure,
    profile_for,
    step_down,
    structured_mode,
)
from hermes_agent.llm.model import ChatModel, Degraded, ModelRequest, Reply
from hermes_agent.llm.redact import RedactedModel, Redactor
from hermes_agent.llm.sanitize import one_line
from hermes_agent.llm.spans import SpanLog, SpannedModel
from hermes_agent.llm.wire import Body, StreamedReply, encode
from tools.errors import ModelError

if TYPE_CHECKING:
    from openai import APIError, OpenAI, Stream
    from openai.types.chat import ChatCompletionChunk

Chunk: TypeAlias = Mapping[str, object]

POLL_S = 0.05


class EndpointModel:
    """One model behind one endpoint; remembers which features the endpoint turned out to lack."""

    def __init__(self, endpoint: Endpoint, capabilities: Capabilities, retry: RetryPolicy | None = None) -> None:
        self._endpoint = endpoint
        self._capabilities = capabilities
        self._retry = retry or RetryPolicy()
        self._client: OpenAI | None = None

    @property
    def name(self) -> str:
        """The model's name as the endpoint knows it."""
        return self._endpoint.model

    @property
    def capabilities(self) -> Capabilities:
        """Features that are known to work by now."""
        return self._capabilities

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """See ChatModel.complete; steps down on refusals and retries what tends to pass, before the first chunk."""
        import openai

        capabilities = self._capabilities
        given_up: list[Degraded] = []
        first: APIError | None = None  # the first refusal: the later ones follow from our own attempts
        retries = 0
        while True:
            reply = self._empty(request, capabilities)
            try:
                body = encode(request, self._endpoint.model, capabilities, self._endpoint.temperature)
                client = self._connected()
                for chunk in _interruptible(lambda: self._chunks(client, body), cancelled):  # noqa: B023 (read at once)
                    if chunk is None:
                        self._hang_up()
                        return replace(reply.reply(cancelled=True), degraded=tuple(given_up))
                    self._capabilities = capabilities
                    reply.feed(chunk)
                return replace(reply.reply(), degraded=tuple(given_up))
            except openai.APIError as error:
                if reply.begun:
                    raise failure(error, self._endpoint, begun=True) from error
                if isinstance(error, openai.APIStatusError) and not CONTEXT_OVERFLOW.search(error.message):
                    step = step_down(capabilities, request, error.status_code, error.message)
                    if step is not None:
                        first = first or error
                        given_up.append(step.degraded)
                        capabilities = step.capabilities
                        continue
                wait_s = self._retry.wait_s(error, retries)
                if wait_s is None:
                    raise failure(first or error, self._endpoint) from error
                retries += 1
            if not self._retry.pause(wait_s, cancelled):
                return Reply(reason="cancelled")

    def _empty(self, request: ModelRequest, capabilities: Capabilities) -> StreamedReply:
        """The reply to fill with chunks; raises ModelError when the prompt cannot fit the window."""
        wanted = request_tokens(request) + (request.max_tokens or 0)
        if (window := capabilities.context_window) is not None and wanted > window:
            raise ModelError(
                f"The question needs about {wanted:,} tokens and {self.name!r} takes {window:,}; "
                "narrow it, or choose a model with a larger context."
            )
        schema = request.response_schema
        forced = schema.name if schema and structured_mode(capabilities) == "forced_tool" else None
        return StreamedReply(forced, capabilities.parallel_calls or forced is not None)

    def _chunks(self, client: OpenAI, body: Body) -> Iterator[Chunk]:
        """Decoded chunks of one HTTP exchange; runs in a thread of its own, which ends once the client is given up."""
        import httpx2
        import openai

        where = self._endpoint.base_url
        create: Callable[..., Any] = client.chat.completions.create
        try:
            stream: Stream[ChatCompletionChunk] = create(**body)
        except httpx2.TransportError as error:  # the client lets it pass where it reads the text of a refusal
            raise ModelError(f"{where} broke off its refusal of the question; ask again.") from error
        with stream:
            if self._client is not client:  # given up while this thread was connecting
                return
            content_type = stream.response.headers.get("content-type", "")
            if not content_type.startswith("text/event-stream"):
                raise ModelError(
                    f"{where} answered with {one_line(content_type, 60) or 'no content type'} instead of a stream of "
                    "events; check llm.base_url (it usually ends in /v1) and that the server can stream."
                )
            try:
                for chunk in stream:
                    if not isinstance(chunk, openai.BaseModel):  # the client passes on whatever JSON it gets
                        raise ValueError("a chunk that is no object")
                    yield chunk.to_dict(mode="python", warnings=False)
            except (ValueError, RecursionError) as error:
                raise ModelError(f"{where} streamed something that is no chunk of an answer; ask again.") from error

    def _hang_up(self) -> None:
        """Close the connection that nobody listens to any more, which ends its thread."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> OpenAI:
        """The client, made at the first call; the run's data goes to the address that the user wrote down."""
        if self._client is None:
            from case_library.endpoint_client import endpoint_client

            endpoint = self._endpoint
            self._client = endpoint_client(
                endpoint.base_url,
                endpoint.api_key,
                timeout_s=endpoint.timeout_s,
                retries=0,
                proxies=not endpoint.loopback,
                fault=ModelError,
            )
        return self._client


def _interruptible(produce: Callable[[], Iterator[Chunk]], cancelled: Callable[[], bool]) -> Iterator[Chunk | None]:
    """The chunks of ``produce()``, read in a thread; None as the last one once ``cancelled``. Raises its error."""
    items: queue.SimpleQueue[Chunk | Exception | None] = queue.SimpleQueue()
    stop = threading.Event()

    def read() -> None:
        try:
            for chunk in produce():
                if stop.is_set():
                    return
                items.put(chunk)
            items.put(None)
        except Exception as error:  # whatever it is belongs to the thread that asked, where it is raised again
            items.put(error)

    threading.Thread(target=read, name="hermes-model-stream", daemon=True).start()
    try:
        while not cancelled():
            try:
                item = items.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if isinstance(item, Exception):
                raise item
            if item is None:
                return
            yield item
        yield None
    finally:
        stop.set()


def span_log(settings: Settings) -> SpanLog | None:
    """Where spans of calls are kept; None when they are off."""
    return None if settings.spans_file is None else SpanLog(settings.spans_file, settings.llm.spans == "content")


def connect(
    settings: Settings, hosts: Iterable[str] = (), users: Iterable[str] = (), spans: SpanLog | None = None
) -> ChatModel | None:
    """The configured model, None when none is; ``hosts`` and ``users`` are masked too, also in ``spans``."""
    llm = settings.llm
    if llm.model is None:
        return None
    key, loopback = settings.key_text(), settings.is_loopback
    endpoint = Endpoint(llm.base_url, llm.model, key, llm.timeout_s, llm.temperature, loopback)
    model: ChatModel = EndpointModel(endpoint, capabilities_of(settings), RetryPolicy(llm.max_retries))
    if spans is not None:
        model = SpannedModel(model, spans, llm.base_url)
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
