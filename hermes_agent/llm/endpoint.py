"""A model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from hermes_agent.llm.budget import request_tokens
from hermes_agent.llm.capabilities import (
    CONTEXT_OVERFLOW,
    Capabilities,
    Endpoint,
    Structured,
    step_down,
    structured_mode,
)
from hermes_agent.llm.failures import RetryPolicy, failure
from hermes_agent.llm.model import Degraded, Finished, Message, ModelEvent, ModelRequest, ResponseSchema, ToolSpec
from hermes_agent.llm.reply import ReplyAssembler
from hermes_agent.llm.sanitize import one_line
from tools.errors import ModelError

Body = dict[str, object]

SCHEMA_IN_PROMPT = "Answer with one JSON object and nothing else, no code fence. It has to fit this JSON Schema:\n"


def encode(request: ModelRequest, model: str, capabilities: Capabilities, temperature: float | None) -> Body:
    """The JSON body; features that the endpoint lacks are left out or put into words."""
    messages, schema = request.messages, request.response_schema
    offers_tools = bool(request.tools) and capabilities.tools
    if not offers_tools:
        messages = _tool_traffic_in_words(messages)
    body: Body = {"model": model, "stream": True}
    if capabilities.streamed_usage:
        body["stream_options"] = {"include_usage": True}
    if temperature is not None and capabilities.temperature:
        body["temperature"] = temperature
    if request.max_tokens is not None and capabilities.token_limit != "none":
        body[capabilities.token_limit] = request.max_tokens
    if offers_tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice == "none" and capabilities.tool_choice:
            body["tool_choice"] = "none"
        if not capabilities.parallel_calls and capabilities.parallel_switch:
            body["parallel_tool_calls"] = False
    if schema is not None:
        body |= _held_to(schema, mode := structured_mode(capabilities))
        if mode in ("json_object", "plain"):
            messages = _with_schema_in_prompt(messages, schema.schema)
    body["messages"] = [_message(message, capabilities) for message in messages]
    return body


def _held_to(schema: ResponseSchema, mode: Structured) -> Body:
    match mode:
        case "json_schema":
            form = {"name": schema.name, "strict": True, "schema": dict(schema.schema)}
            return {"response_format": {"type": "json_schema", "json_schema": form}}
        case "forced_tool":
            tool = ToolSpec(schema.name, "Give the answer by calling this.", schema.schema)
            return {"tools": [_tool(tool)], "tool_choice": {"type": "function", "function": {"name": schema.name}}}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "plain":
            return {}


def _with_schema_in_prompt(messages: Sequence[Message], schema: Mapping[str, object]) -> tuple[Message, ...]:
    """The schema as words in the system message, for endpoints that cannot be held to it otherwise."""
    words = SCHEMA_IN_PROMPT + json.dumps(schema, ensure_ascii=False)
    if messages and messages[0].role == "system":
        return (replace(messages[0], content=f"{messages[0].content}\n\n{words}"), *messages[1:])
    return (Message("system", words), *messages)


def _tool(tool: ToolSpec) -> Body:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}


def _message(message: Message, capabilities: Capabilities) -> Body:
    body: Body = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None and message.role == "tool":
        body["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
            for call in message.tool_calls
        ]
        if capabilities.reasoning_echo:
            # The field has to be there even when the model did not think: DeepSeek answers 400 otherwise.
            body["reasoning_content"] = message.reasoning or ""
    return body


def _tool_traffic_in_words(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Calls and results as ordinary messages: many servers refuse them in a request that offers no tools.

    Results join the user's message after them, since some chat templates want the roles to alternate.
    """
    said: list[Message] = []
    for message in messages:
        role, text = message.role, message.content
        if role == "tool":
            role, text = "user", f"Result of the call {message.tool_call_id}:\n{text}"
        elif message.tool_calls:
            calls = (f"Call {call.id}: {call.name}({call.arguments_json})" for call in message.tool_calls)
            text = "\n".join([text, *calls]).strip()
        if said and role == said[-1].role == "user":
            text = f"{said.pop().content}\n\n{text}"
        said.append(Message(role, text))
    return tuple(said)


if TYPE_CHECKING:
    from httpx2 import Response
    from openai import APIError, OpenAI, Stream
    from openai.types.chat import ChatCompletionChunk

Chunk: TypeAlias = Mapping[str, object]

POLL_S = 0.05
CONNECT_TIMEOUT_S = 10.0
MAX_BODY_BYTES = 64 * 1024 * 1024  # of one response, errors included
NO_KEY = "none"  # the client insists on one; servers without keys ignore it


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

    def stream(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Iterator[ModelEvent]:
        """See ChatModel.stream; steps down on refusals and retries what tends to pass, before the first event."""
        import openai

        capabilities = self._capabilities
        given_up: list[Degraded] = []
        first: APIError | None = None  # the first refusal: the later ones follow from our own attempts
        retries = 0
        while True:
            begun = False
            try:
                for event in self._exchange(request, capabilities, cancelled):
                    if not begun:
                        begun = True
                        self._capabilities = capabilities
                        yield from given_up
                    yield event
                return
            except openai.APIError as error:
                if begun:
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
                yield Finished("cancelled")
                return

    def _exchange(
        self, request: ModelRequest, capabilities: Capabilities, cancelled: Callable[[], bool]
    ) -> Iterator[ModelEvent]:
        prompt_tokens = self._fitting(request, capabilities.context_window)
        schema = request.response_schema
        forced = schema.name if schema and structured_mode(capabilities) == "forced_tool" else None
        reply = ReplyAssembler(prompt_tokens, forced, capabilities.parallel_calls or forced is not None)
        body = encode(request, self._endpoint.model, capabilities, self._endpoint.temperature)
        for chunk in _interruptible(lambda: self._chunks(body), cancelled):
            if chunk is None:
                yield from reply.cancel()
                return
            yield from reply.feed(chunk)
        yield from reply.finish()

    def _chunks(self, body: Body) -> Iterator[Chunk]:
        """Decoded chunks of one HTTP exchange; runs in a thread of its own."""
        import openai

        where = self._endpoint.base_url
        create: Callable[..., Any] = self._connected().chat.completions.create
        stream: Stream[ChatCompletionChunk] = create(**body)
        with stream:
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

    def _connected(self) -> OpenAI:
        """The client, made at the first call; nothing meant for OpenAI is sent to anyone else."""
        if self._client is None:
            import openai

            # No redirects: the run's data goes to the address that the user wrote down and nowhere else.
            http = openai.DefaultHttpxClient(
                follow_redirects=False,
                trust_env=not self._endpoint.loopback,
                headers={"accept-encoding": "identity"},  # a small compressed body can fill the memory
                event_hooks={"response": [self._bound]},
            )
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

    def _bound(self, response: Response) -> None:
        """Refuse a compressed body, and stop reading one that does not end."""
        where, read = self._endpoint.base_url, response.iter_bytes
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ModelError(f"{where} compressed its answer, which it was asked not to do; choose another endpoint.")

        def bounded(chunk_size: int | None = None) -> Iterator[bytes]:
            size = 0
            for part in read(chunk_size):
                size += len(part)
                if size > MAX_BODY_BYTES:
                    raise ModelError(f"The answer of {where} is larger than {MAX_BODY_BYTES:,} bytes; ask again.")
                yield part

        response.iter_bytes = bounded  # type: ignore[method-assign]

    def _fitting(self, request: ModelRequest, window: int | None) -> int:
        """Estimated tokens of the prompt; raises ModelError when they cannot fit the window."""
        tokens = request_tokens(request)
        wanted = tokens + (request.max_tokens or 0)
        if window is not None and wanted > window:
            raise ModelError(
                f"The question needs about {wanted:,} tokens and {self.name!r} takes {window:,}; "
                "narrow it, or choose a model with a larger context."
            )
        return tokens


def _interruptible(produce: Callable[[], Iterator[Chunk]], cancelled: Callable[[], bool]) -> Iterator[Chunk | None]:
    """The chunks of ``produce()``, read in a thread; None as the last one once ``cancelled``. Raises its error.

    After an interruption the thread ends as soon as its source yields or times out.
    """
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
