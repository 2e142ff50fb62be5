"""A model that never sees the names of hosts, users and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hermes_agent.llm.model import ChatModel, Finished, Message, ModelEvent, ModelRequest, TextDelta, ToolCall
from hermes_agent.llm.redact import Redactor, StreamUnmasker


class RedactedModel:
    """Masks what goes out and unmasks what comes back; tool descriptions and schemas are ours and stay."""

    def __init__(self, model: ChatModel, redactor: Redactor) -> None:
        self._model = model
        self._redactor = redactor

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self._model.name

    def stream(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Iterator[ModelEvent]:
        """See ChatModel.stream."""
        masked = replace(request, messages=tuple(self._masked(message) for message in request.messages))
        unmasker = StreamUnmasker(self._redactor)
        for event in self._model.stream(masked, cancelled):
            if isinstance(event, TextDelta):
                if text := unmasker.feed(event.text):
                    yield TextDelta(text)
                continue
            if isinstance(event, ToolCall | Finished) and (rest := unmasker.end()):
                yield TextDelta(rest)
            if isinstance(event, ToolCall):
                event = replace(event, arguments_json=self._redactor.unmask_json(event.arguments_json))
            yield event

    def _masked(self, message: Message) -> Message:
        """Reasoning stays: the model wrote it about masked text and wants it back unchanged."""
        mask = self._redactor.mask
        calls = tuple(replace(call, arguments_json=mask(call.arguments_json)) for call in message.tool_calls)
        return replace(message, content=mask(message.content), tool_calls=calls)
