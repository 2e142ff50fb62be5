"""A streamed reply put together from its chunks: text, thinking, tool calls and token counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hermes_agent.llm.budget import estimated_tokens
from hermes_agent.llm.model import Finished, FinishReason, ModelEvent, ReasoningDelta, TextDelta, ToolCall, Usage
from tools.errors import ModelError

MAX_REPLY_CHARS = 2_000_000  # far over any model's output; keeps a runaway endpoint from filling memory
MAX_CALLS = 64
_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
_OPEN, _CLOSE = "<think>", "</think>"


class ThinkingSplitter:
    """Splits a leading ``<think>...</think>`` off a streamed answer.

    Only the start of an answer can open it: the same words later on are the answer's own.
    """

    def __init__(self) -> None:
        self._state = "start"
        self._held = ""  # what may still be the start of a tag

    def feed(self, text: str) -> Iterator[TextDelta | ReasoningDelta]:
        """Yield the pieces that are certain by now; a tag cut in two is held back."""
        self._held += text
        if self._state == "start":
            begun = self._held.lstrip()
            if begun.startswith(_OPEN):
                self._state, self._held = "thinking", begun.removeprefix(_OPEN)
            elif not _OPEN.startswith(begun):
                self._state = "answer"
        if self._state == "thinking":
            thought, tag, rest = self._held.partition(_CLOSE)
            if tag:
                self._state, self._held = "answer", rest.lstrip()
            else:
                cut = len(thought) - _tail_of_tag(thought)
                thought, self._held = thought[:cut], thought[cut:]
            if thought:
                yield ReasoningDelta(thought)
        if self._state == "answer":
            yield from self.end()

    def end(self) -> Iterator[TextDelta | ReasoningDelta]:
        """Yield what is held back."""
        held, self._held = self._held, ""
        if held:
            yield ReasoningDelta(held) if self._state == "thinking" else TextDelta(held)


def _tail_of_tag(text: str) -> int:
    """Number of last characters that may be the start of the closing tag."""
    return next((size for size in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:size])), 0)


@dataclass
class _PartialCall:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ReplyAssembler:
    """Takes decoded chunks; nothing about their shape is taken for granted.

    ``answer_tool`` is the tool that stands for a structured answer: its arguments become text.
    """

    def __init__(self, prompt_tokens: int, answer_tool: str | None = None, parallel_calls: bool = True) -> None:
        self._prompt_tokens = prompt_tokens
        self._answer_tool = answer_tool
        self._parallel_calls = parallel_calls
        self._calls: dict[int, _PartialCall] = {}
        self._latest = 0
        self._chars = 0
        self._output: list[str] = []
        self._usage: Usage | None = None
        self._finish: FinishReason | None = None
        self._thinking = ThinkingSplitter()

    def feed(self, chunk: Mapping[str, object]) -> Iterator[ModelEvent]:
        """Yield the text and reasoning of one chunk; calls and usage follow at the end."""
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
            if isinstance(prompt, int) and isinstance(completion, int) and prompt >= 0 and completion >= 0:
                self._usage = Usage(prompt, completion)
        for choice in _mappings(chunk.get("choices"))[:1]:
            delta = choice.get("delta")
            if isinstance(delta, Mapping):
                yield from self._take_delta(delta)
            reason = choice.get("finish_reason")
            if isinstance(reason, str):
                self._finish = _REASONS.get(reason, "stop")

    def finish(self) -> Iterator[ModelEvent]:
        """Yield calls, usage and the reason; raises ModelError for a stream that just stopped."""
        if self._finish is None:
            raise ModelError(
                "The model's answer broke off in the middle (the stream ended without a finish reason); ask again."
            )
        yield from self._thinking.end()
        named = [call for _, call in sorted(self._calls.items()) if call.name]
        reason: FinishReason = "stop" if self._finish == "tool_calls" else self._finish
        for number, part in enumerate(named if self._parallel_calls else named[:1], start=1):
            arguments = "".join(part.arguments) or "{}"
            if part.name == self._answer_tool:
                yield TextDelta(arguments)
            else:
                yield ToolCall(part.id or f"call_{number}", part.name, arguments)
                reason = "tool_calls"
        yield self._used()
        yield Finished(reason)

    def cancel(self) -> Iterator[ModelEvent]:
        """Yield the usage of a call that the user broke off."""
        yield self._used()
        yield Finished("cancelled")

    def _take_delta(self, delta: Mapping[str, object]) -> Iterator[ModelEvent]:
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            self._count(reasoning)
            yield ReasoningDelta(reasoning)
        content = delta.get("content")
        if isinstance(content, str) and content:
            self._count(content)
            yield from self._thinking.feed(content)
        for part in _mappings(delta.get("tool_calls")):
            self._take_call(part)

    def _take_call(self, part: Mapping[str, object]) -> None:
        call = self._call_of(part)
        function = part.get("function")
        if not isinstance(function, Mapping):
            return
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and not call.name:
            call.name = name
        if isinstance(arguments, Mapping):
            arguments = json.dumps(arguments)
        if isinstance(arguments, str):
            self._count(arguments)
            call.arguments.append(arguments)

    def _call_of(self, part: Mapping[str, object]) -> _PartialCall:
        """The call a piece belongs to: by index, or, where an endpoint leaves that out, by a new id."""
        index, identity = part.get("index"), part.get("id")
        if not isinstance(index, int):
            known = self._calls.get(self._latest)
            new = isinstance(identity, str) and known is not None and known.id not in ("", identity)
            index = self._latest + 1 if new else self._latest
        if index not in self._calls and len(self._calls) >= MAX_CALLS:
            raise ModelError(f"The model asked for more than {MAX_CALLS} tools in one turn; ask again.")
        self._latest = index
        call = self._calls.setdefault(index, _PartialCall())
        if isinstance(identity, str) and not call.id:
            call.id = identity
        return call

    def _used(self) -> Usage:
        return self._usage or Usage(self._prompt_tokens, estimated_tokens("".join(self._output)), estimated=True)

    def _count(self, text: str) -> None:
        self._chars += len(text)
        self._output.append(text)
        if self._chars > MAX_REPLY_CHARS:
            raise ModelError(f"The model's answer is longer than {MAX_REPLY_CHARS:,} characters; it was broken off.")


def _mappings(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
