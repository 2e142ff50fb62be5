"""A blocking source read in a thread, so that a user can break it off while it waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hermes_agent.llm.budget import request_tokens
from hermes_agent.llm.capabilities import CONTEXT_OVERFLOW, Capabilities, Step, step_down, structured_mode
from hermes_agent.llm.failures import FailureSentences, RetryPolicy
from hermes_agent.llm.model import Degraded, Finished, ModelEvent, ModelRequest
from hermes_agent.llm.reply import ReplyAssembler
from hermes_agent.llm.wire import Body, encode
from tools.errors import ModelError

T = TypeVar("T")

POLL_S = 0.05
QUEUE_SIZE = 256


class Interrupted(Exception):
    """The user broke it off."""


@dataclass(frozen=True)
class _Item(Generic[T]):
    value: T


@dataclass(frozen=True)
class _End:
    error: Exception | None


def pumped(produce: Callable[[], Iterator[T]], cancelled: Callable[[], bool]) -> Iterator[T]:
    """What ``produce()`` yields, read in a thread; raises its error, or Interrupted once ``cancelled``.

    After an interruption the thread ends as soon as its source yields or times out.
    """
    items: queue.Queue[_Item[T] | _End] = queue.Queue(QUEUE_SIZE)
    stop = threading.Event()
    thread = threading.Thread(target=_read, args=(produce, items, stop), name="hermes-model-stream", daemon=True)
    thread.start()
    try:
        while True:
            if cancelled():
                raise Interrupted
            try:
                item = items.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if isinstance(item, _Item):
                yield item.value
            elif item.error is not None:
                raise item.error
            else:
                return
    finally:
        stop.set()


def _read(produce: Callable[[], Iterator[T]], items: queue.Queue[_Item[T] | _End], stop: threading.Event) -> None:
    error: Exception | None = None
    try:
        for value in produce():
            if not _put(items, _Item(value), stop):
                return
    except Exception as caught:  # whatever it is belongs to the thread that asked, where it is raised again
        error = caught
    _put(items, _End(error), stop)


def _put(items: queue.Queue[_Item[T] | _End], item: _Item[T] | _End, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            items.put(item, timeout=POLL_S)
        except queue.Full:
            continue
        return True
    return False


if TYPE_CHECKING:
    from openai import APIError, OpenAI, Stream
    from openai.types.chat import ChatCompletionChunk

CONNECT_TIMEOUT_S = 10.0
NO_KEY = "none"  # the client insists on one; servers without keys ignore it


@dataclass(frozen=True)
class Endpoint:
    """Where a model is served. ``timeout_s`` is the longest silence, not the longest answer."""

    base_url: str
    model: str
    api_key: str | None = None
    timeout_s: float = 60.0
    temperature: float | None = None
    loopback: bool = False  # then no proxy is asked


class EndpointModel:
    """One model behind one endpoint; remembers which features the endpoint turned out to lack."""

    def __init__(self, endpoint: Endpoint, capabilities: Capabilities, retry: RetryPolicy | None = None) -> None:
        self._endpoint = endpoint
        self._capabilities = capabilities
        self._retry = retry or RetryPolicy()
        self._client: OpenAI | None = None
        self._failures = FailureSentences(endpoint.base_url, endpoint.model, endpoint.timeout_s, endpoint.api_key)

    @property
    def name(self) -> str:
        """The model's name as the endpoint knows it."""
        return self._endpoint.model

    @property
    def capabilities(self) -> Capabilities:
        """What is known to work by now."""
        return self._capabilities

    def stream(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Iterator[ModelEvent]:
        """See ChatModel.stream; steps down on refusals and retries what tends to pass, before the first event."""
        import openai

        ladder = _Ladder(self._capabilities, request, self._retry)
        while True:
            begun = False
            try:
                for event in self._exchange(request, ladder.capabilities, cancelled):
                    if not begun:
                        begun = True
                        self._capabilities = ladder.capabilities
                        yield from ladder.degraded()
                    yield event
                return
            except openai.APIError as error:
                if begun:
                    broken = isinstance(error, openai.APIConnectionError)
                    raise (self._failures.broken_off() if broken else self._failures.of(error)) from error
                wait_s = ladder.next_wait_s(error)
                if wait_s is None:
                    raise self._failures.of(ladder.first or error) from error
            if not self._retry.pause(wait_s, cancelled):
                yield Finished("cancelled")
                return

    def _exchange(
        self, request: ModelRequest, capabilities: Capabilities, cancelled: Callable[[], bool]
    ) -> Iterator[ModelEvent]:
        prompt_tokens = self._fitting(request, capabilities)
        schema = request.response_schema
        forced = schema is not None and structured_mode(capabilities) == "forced_tool"
        reply = ReplyAssembler(
            prompt_tokens, schema.name if schema and forced else None, capabilities.parallel_calls or forced
        )
        body = encode(request, self._endpoint.model, capabilities, self._endpoint.temperature)
        try:
            for chunk in pumped(lambda: self._chunks(body), cancelled):
                yield from reply.feed(chunk)
        except Interrupted:
            yield from reply.cancel()
            return
        yield from reply.finish()

    def _chunks(self, body: Body) -> Iterator[Mapping[str, object]]:
        """Decoded chunks of one HTTP exchange; runs in the pump's thread."""
        import openai

        create: Callable[..., Any] = self._connected().chat.completions.create
        stream: Stream[ChatCompletionChunk] = create(**body)
        with stream:
            content_type = stream.response.headers.get("content-type", "")
            if not content_type.startswith("text/event-stream"):
                raise self._failures.not_a_stream(content_type)
            try:
                for chunk in stream:
                    if not isinstance(chunk, openai.BaseModel):  # the client passes on whatever JSON it gets
                        raise ValueError("a chunk that is no object")
                    yield chunk.to_dict(mode="python", warnings=False)
            except (ValueError, RecursionError) as error:
                raise ModelError(
                    f"{self._endpoint.base_url} streamed something that is no chunk of an answer; ask again."
                ) from error

    def _connected(self) -> OpenAI:
        """The client, made at the first call; nothing meant for OpenAI is sent to anyone else."""
        if self._client is None:
            import openai

            # No redirects: the run's data goes to the address that the user wrote down and nowhere else.
            http = openai.DefaultHttpxClient(follow_redirects=False, trust_env=not self._endpoint.loopback)
            client = openai.OpenAI(
                base_url=self._endpoint.base_url,
                api_key=self._endpoint.api_key or NO_KEY,
                timeout=openai.Timeout(self._endpoint.timeout_s, connect=CONNECT_TIMEOUT_S),
                max_retries=0,
                http_client=http,
            )
            # Read from the environment by the client, whoever the endpoint belongs to.
            client.organization = client.project = client.admin_api_key = None
            self._client = client
        return self._client

    def _fitting(self, request: ModelRequest, capabilities: Capabilities) -> int:
        """Estimated tokens of the prompt; raises ModelError when they cannot fit the window."""
        tokens = request_tokens(request)
        window = capabilities.context_window
        if window is not None and tokens + (request.max_tokens or 0) > window:
            raise ModelError(
                f"The question needs about {tokens + (request.max_tokens or 0):,} tokens and {self.name!r} takes "
                f"{window:,}; narrow it, or choose a model with a larger context."
            )
        return tokens


class _Ladder:
    """The attempts of one request: which features to give up next, and when to try again."""

    def __init__(self, capabilities: Capabilities, request: ModelRequest, retry: RetryPolicy) -> None:
        self.capabilities = capabilities
        self.first: APIError | None = None  # the first refusal: the later ones follow from our own attempts
        self._request = request
        self._retry = retry
        self._retries = 0
        self._steps: list[Step] = []

    def next_wait_s(self, error: APIError) -> float | None:
        """Seconds until the next attempt, or None when there is none to make."""
        import openai

        if isinstance(error, openai.APIStatusError) and not CONTEXT_OVERFLOW.search(error.message):
            step = step_down(self.capabilities, self._request, error.status_code, error.message)
            if step is not None:
                self.first = self.first or error
                self._steps.append(step)
                self.capabilities = step.capabilities
                return 0.0
        wait_s = self._retry.wait_s(error, self._retries)
        self._retries += 1
        return wait_s

    def degraded(self) -> Iterator[Degraded]:
        """What was given up on the way here."""
        for step in self._steps:
            yield Degraded(step.feature, step.detail)
