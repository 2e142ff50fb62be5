"""One tool call of a model carried out: checked, run, stored, and answered in a bounded text."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hermes_agent.llm.dialogue_events import DialogueEvent, ToolFinished, ToolStarted
from hermes_agent.llm.model import Message, ToolCall
from hermes_agent.llm.results import READ_RESULT, ResultStore, StoredResult
from hermes_agent.llm.tool import Tool, arguments_of
from hermes_agent.llm.untrusted import clean, fence, one_line
from tools.errors import HermesError, ModelError

_LOG = logging.getLogger(__name__)
QUOTED_CHARS = 200


@dataclass(frozen=True)
class Answered:
    """The tool message for the model, and whether the call got anywhere."""

    message: Message
    ok: bool
    repeated: bool = False


class CallRunner:
    """Answers calls with the tools it was given and nothing else; every call gets an answer."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        store: ResultStore,
        emit: Callable[[DialogueEvent], None],
        clock: Callable[[], float],
        text_chars: int,
    ) -> None:
        self._tools = {**tools, READ_RESULT: store.reader()}
        self._store = store
        self._emit = emit
        self._clock = clock
        self._text_chars = text_chars
        self._seen: dict[str, str] = {}

    def answer(self, call: ToolCall) -> Answered:
        """Carry out one call; what fails becomes a sentence for the model, never an exception."""
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._tools))
            return self._failed(call, "there is no such tool", f"use one of: {known}")
        try:
            arguments = arguments_of(call, tool)
        except ModelError as error:
            wanted = json.dumps(tool.schema, ensure_ascii=False, default=str)
            return self._failed(call, str(error), f"call it again with arguments that fit {wanted}")
        key = f"{call.name} {json.dumps(arguments, sort_keys=True)}"
        if key in self._seen:
            advice = "read that result, ask something else, or answer"
            return self._failed(call, f"the same call was made before, see {self._seen[key]}", advice, repeated=True)
        return self._run(call, tool, arguments, key)

    def skip(self, call: ToolCall, why: str) -> Message:
        """The answer to a call that was not carried out: an unanswered one makes the conversation invalid."""
        return _tool_message(call, f"Not run: {why}.")

    def _run(self, call: ToolCall, tool: Tool, arguments: dict[str, object], key: str) -> Answered:
        self._emit(ToolStarted(call.id, call.name, arguments))
        start = self._clock()
        try:
            output = tool.call(arguments)
        except HermesError as error:
            seconds = self._clock() - start
            self._seen[key] = "the failure above"
            return self._failed(call, str(error), "change the arguments or use another tool", seconds)
        except Exception as error:  # the outermost boundary of a tool: a defect in one must not end the dialogue
            _LOG.exception("tool %s failed on %s", call.name, arguments)
            seconds = self._clock() - start
            self._seen[key] = "the failure above"
            return self._failed(call, f"internal error {type(error).__name__}", "use another tool", seconds)
        seconds = self._clock() - start
        stored = self._store.put(call.name, arguments, output)
        self._seen[key] = stored.handle
        size = len(output.text.encode("utf-8", "replace"))
        self._emit(ToolFinished(call.id, call.name, True, seconds, size, stored.handle))
        return Answered(_tool_message(call, self._bounded(stored)), ok=True)

    def _bounded(self, stored: StoredResult) -> str:
        shown = clean(stored.text, self._text_chars)
        text = fence(shown, f"{stored.handle} from {stored.tool}")
        if len(stored.text) <= self._text_chars:
            return text
        return (
            f"{text}\n{self._text_chars:,} of {len(stored.text):,} characters shown; "
            f"{READ_RESULT} with handle {stored.handle} gives the rest."
        )

    def _failed(self, call: ToolCall, what: str, advice: str, seconds: float = 0.0, repeated: bool = False) -> Answered:
        asked = f"{one_line(call.name, QUOTED_CHARS)}({one_line(call.arguments_json, QUOTED_CHARS)})"
        detail = one_line(what, 3 * QUOTED_CHARS)
        self._emit(ToolFinished(call.id, call.name, False, seconds, 0, detail=detail))
        text = fence(f"Asked: {asked}\nFailed: {detail}\nTry: {advice}", f"failure of {call.name}")
        return Answered(_tool_message(call, text), ok=False, repeated=repeated)


def _tool_message(call: ToolCall, text: str) -> Message:
    return Message("tool", text, tool_call_id=call.id)
