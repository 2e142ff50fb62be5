"""Spans of model calls and tool calls as JSON lines on this machine, named as OpenTelemetry's GenAI conventions.

Names as in the semantic conventions for generative AI (``gen_ai.*``, version 1.41). Nothing is exported; questions,
answers and arguments are left out unless the user asked for content.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from hermes_agent.llm.model import ChatModel, Message, ModelRequest, Reply
from hermes_agent.model.events import Emit, Event, ToolCalled
from hermes_agent.model.turn import ToolCallRecord
from tools.errors import ModelError

_LOG = logging.getLogger(__name__)
MOST_BYTES = 16_000_000  # of the file; a full one is kept as FILE.1 until the next is full
CONTENT_CHARS = 20_000  # of one message
FOLDER_MODE, FILE_MODE = 0o700, 0o600


@dataclass
class SpanLog:
    """Appends spans to a file that only its owner can read; a file that cannot be written costs a log line alone."""

    path: Path
    content: bool = False
    clock: Callable[[], int] = time.time_ns
    trace_id: str = field(default_factory=lambda: secrets.token_hex(16))

    def begin(self) -> None:
        """Start the trace of another question."""
        self.trace_id = secrets.token_hex(16)

    def write(self, name: str, kind: str, start_ns: int, attributes: dict[str, object], error: str = "") -> None:
        """Append one span that ends now."""
        known = {key: value for key, value in attributes.items() if value is not None}
        span = {
            "name": name,
            "kind": kind,
            "trace_id": self.trace_id,
            "span_id": secrets.token_hex(8),
            "start_time_unix_nano": start_ns,
            "end_time_unix_nano": max(self.clock(), start_ns),
            "attributes": known | ({"error.type": error} if error else {}),
            "status": "ERROR" if error else "OK",
        }
        try:
            self._append(json.dumps(span, ensure_ascii=True, default=str) + "\n")
        except OSError as fault:
            _LOG.warning("%s: the span could not be written: %s", self.path, fault)

    def _append(self, line: str) -> None:
        self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        with os.fdopen(self._opened(), "a", encoding="utf-8") as out:
            full = os.fstat(out.fileno()).st_size + len(line) > MOST_BYTES
            if not full:
                out.write(line)
        if full:
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            with os.fdopen(self._opened(), "a", encoding="utf-8") as out:
                out.write(line)

    def _opened(self) -> int:
        """The descriptor of the file, which is a regular one of this user and readable by nobody else."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, FILE_MODE)
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            os.close(descriptor)
            raise OSError("it is not a regular file of this user")
        if stat.S_IMODE(about.st_mode) != FILE_MODE:
            os.fchmod(descriptor, FILE_MODE)
        return descriptor

    def listening(self, emit: Emit) -> Emit:
        """The listener, with a span for each tool call that it hears of."""

        def listen(event: Event) -> None:
            if isinstance(event, ToolCalled):
                self.tool_called(event.call)
            emit(event)

        return listen

    def tool_called(self, call: ToolCallRecord) -> None:
        """The span of a tool call that has just ended."""
        self.write(
            f"execute_tool {call.name}",
            "INTERNAL",
            self.clock() - round(call.seconds * 1e9),
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": call.handle,
                "gen_ai.tool.call.arguments": call.arguments if self.content else None,
            },
            "tool_error" if call.error else "",
        )


@dataclass(frozen=True)
class SpannedModel:
    """A model whose calls are kept as spans."""

    model: ChatModel
    log: SpanLog
    base_url: str

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self.model.name

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """See ChatModel.complete."""
        begun = self.log.clock()
        try:
            reply = self.model.complete(request, cancelled)
        except ModelError as error:
            self.log.write(f"chat {self.name}", "CLIENT", begun, self._asked(request), type(error).__name__)
            raise
        usage = reply.usage
        answered: dict[str, object] = {
            "gen_ai.response.finish_reasons": ["tool_calls" if reply.calls else reply.reason],
            "gen_ai.usage.input_tokens": usage.prompt_tokens if usage else None,
            "gen_ai.usage.output_tokens": usage.completion_tokens if usage else None,
            "gen_ai.output.messages": [_message(reply.message())] if self.log.content else None,
        }
        self.log.write(f"chat {self.name}", "CLIENT", begun, self._asked(request) | answered)
        return reply

    def _asked(self, request: ModelRequest) -> dict[str, object]:
        where = urlsplit(self.base_url)
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",  # the protocol that is spoken
            "gen_ai.request.model": self.name,
            "gen_ai.request.max_tokens": request.max_tokens,
            "gen_ai.output.type": "json" if request.response_schema else "text",
            "server.address": where.hostname,
            "server.port": where.port,
            "gen_ai.input.messages": [_message(each) for each in request.messages] if self.log.content else None,
        }


def _message(message: Message) -> dict[str, object]:
    parts: list[dict[str, object]] = [{"type": "text", "content": message.content[:CONTENT_CHARS]}]
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments_json[:CONTENT_CHARS]}
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": parts}
