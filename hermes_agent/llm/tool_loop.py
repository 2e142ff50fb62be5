"""A conversation in which a model calls tools, within its budget, its rounds and its context window."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import Field

from hermes_agent.llm.budget import Budget, BudgetExceeded
from hermes_agent.llm.model import ChatModel, Degraded, Message, ModelRequest, Reply, ToolCall, ToolSpec
from hermes_agent.llm.sanitize import clean, fence, one_line
from hermes_agent.llm.turn import Limits, take_turn
from tools.agent_tools.tool import Arguments, Tool, read_tool
from tools.errors import HermesError, UsageError

_LOG = logging.getLogger(__name__)
QUOTED_CHARS = 200
MAX_STORED_CHARS = 4_000_000  # of one result
MAX_TOTAL_CHARS = 64_000_000  # of all of them; the oldest go first
PAGE_LINES = 60
MAX_PAGE_LINES = 200
READ_RESULT = "read_result"


@dataclass(frozen=True)
class ToolStarted:
    """A tool begins; the arguments have been checked."""

    call_id: str
    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class ToolFinished:
    """A call is over; ``detail`` is the sentence of a failure, ``bytes`` the size of the full result.

    A call that was refused (unknown tool, arguments that do not fit, a repetition) has no ToolStarted before.
    """

    call_id: str
    name: str
    ok: bool
    seconds: float
    bytes: int
    handle: str | None = None
    detail: str = ""


DialogueEvent: TypeAlias = ToolStarted | ToolFinished | Degraded


@dataclass(frozen=True)
class StoredResult:
    """One tool result as it came."""

    handle: str
    tool: str
    text: str


class _Lines(Arguments):
    """Lines of one result."""

    handle: str = Field(description="for example R3")
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=PAGE_LINES, ge=1, le=MAX_PAGE_LINES)
    contains: str = Field(default="", description="keep only lines with this text")


class ResultStore:
    """The results of one conversation, by handle (``R1``, ``R2`` ...)."""

    def __init__(self) -> None:
        self._results: dict[str, StoredResult] = {}
        self._count = 0

    def put(self, tool: str, text: str) -> StoredResult:
        """Store a result and give it a handle."""
        self._count += 1
        stored = StoredResult(f"R{self._count}", tool, clean(text[:MAX_STORED_CHARS]))
        self._results[stored.handle] = stored
        while len(self._results) > 1 and sum(len(each.text) for each in self._results.values()) > MAX_TOTAL_CHARS:
            del self._results[next(iter(self._results))]
        return stored

    def reader(self) -> Tool:
        """The tool with which the model reads on in a result that it was shown the start of."""
        return read_tool(read_result, _Lines).bind(self._results)


def read_result(results: Mapping[str, StoredResult], asked: _Lines) -> str:
    """Reads on in an earlier tool result by handle: lines from `offset`, all or those that contain a text."""
    if asked.handle not in results:
        raise UsageError(f"There is no result {asked.handle!r}; there are: {', '.join(results) or 'none yet'}.")
    lines = [line for line in results[asked.handle].text.splitlines() if asked.contains.lower() in line.lower()]
    page = lines[asked.offset : asked.offset + asked.limit]
    if not page:
        return f"{asked.handle} has {len(lines)} such lines; none from line {asked.offset} on."
    last = asked.offset + len(page) - 1
    return "\n".join([f"{asked.handle}, lines {asked.offset} to {last} of {len(lines)}:", *page])


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
        text_chars: int,
    ) -> None:
        self._tools = {**tools, READ_RESULT: store.reader()}
        self._store = store
        self._emit = emit
        self._text_chars = text_chars
        self._seen: dict[str, str] = {}  # what came of a call, by name and arguments

    def answer(self, call: ToolCall) -> Answered:
        """Carry out one call; what fails becomes a sentence for the model, never an exception."""
        tool = self._tools.get(call.name)
        if tool is None:
            return self._failed(call, "there is no such tool", f"use one of: {', '.join(sorted(self._tools))}")
        try:
            asked = tool.check(call.arguments_json or "{}")
        except UsageError as error:
            wanted = json.dumps(tool.schema, ensure_ascii=False)
            return self._failed(call, str(error), f"call it again with arguments that fit {wanted}")
        key = f"{call.name} {asked.model_dump_json()}"
        if key in self._seen:
            advice = "read that result, ask something else, or answer"
            return self._failed(call, f"the same call was made before, see {self._seen[key]}", advice, repeated=True)
        return self._run(call, tool, asked, key)

    def skip(self, call: ToolCall, why: str) -> Message:
        """The answer to a call that was not carried out: an unanswered one makes the conversation invalid."""
        return _tool_message(call, f"Not run: {why}.")

    def _run(self, call: ToolCall, tool: Tool, asked: Arguments, key: str) -> Answered:
        self._emit(ToolStarted(call.id, call.name, asked.model_dump(mode="json", exclude_unset=True)))
        start = time.monotonic()
        self._seen[key] = "the failure above"
        try:
            text = tool.function(asked)
        except HermesError as error:
            return self._failed(call, str(error), "change the arguments or use another tool", time.monotonic() - start)
        except Exception as error:  # the outermost boundary of a tool: a defect in one must not end the dialogue
            _LOG.exception("tool %s failed on %s", call.name, asked)
            what = f"internal error {type(error).__name__}"
            return self._failed(call, what, "use another tool", time.monotonic() - start)
        seconds = time.monotonic() - start
        stored = self._store.put(call.name, text)
        self._seen[key] = stored.handle
        size = len(text.encode("utf-8", "replace"))
        self._emit(ToolFinished(call.id, call.name, True, seconds, size, stored.handle))
        return Answered(_tool_message(call, self._bounded(stored)), ok=True)

    def _bounded(self, stored: StoredResult) -> str:
        text = fence(clean(stored.text, self._text_chars), f"{stored.handle} from {stored.tool}")
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


Stop = Literal["answered", "cut_short", "max_rounds", "repeated_calls", "budget", "cancelled"]

ANSWER_NOW = "No more tools can be called. Answer with what is known by now, and say what is missing."


@dataclass(frozen=True)
class DialogueResult:
    """The end of a dialogue. ``text`` is an answer when ``stop`` is "answered", else what there was of one."""

    text: str
    stop: Stop
    note: str  # a sentence for the user when it was not simply answered
    messages: tuple[Message, ...]  # the whole conversation, valid to go on with


def run_dialogue(
    model: ChatModel,
    messages: Sequence[Message],
    tools: Mapping[str, Tool],
    budget: Budget,
    emit: Callable[[DialogueEvent], None],
    cancelled: Callable[[], bool],
    *,
    limits: Limits | None = None,
    store: ResultStore | None = None,
) -> DialogueResult:
    """Let the model answer the last message with the help of ``tools``.

    Ends with an answer, a limit, or the user's cancellation, each named in the result; raises ModelError
    when the model itself fails and UsageError for a tool under a wrong name.
    """
    wrong = [name for name, tool in tools.items() if tool.name != name or name == READ_RESULT]
    if wrong:
        raise UsageError(f"The tool {tools[wrong[0]].name} cannot be registered as {wrong[0]}.")
    bounds, results = limits or Limits(), store or ResultStore()
    runner = CallRunner(tools, results, emit, bounds.tool_text_chars)
    offered = (*tools.values(), results.reader()) if tools else ()
    specs = tuple(ToolSpec(tool.name, tool.description, tool.schema) for tool in offered)
    return _Dialogue(model, list(messages), specs, runner, budget, emit, cancelled, bounds).run()


@dataclass
class _Dialogue:
    model: ChatModel
    messages: list[Message]
    specs: tuple[ToolSpec, ...]
    runner: CallRunner
    budget: Budget
    emit: Callable[[DialogueEvent], None]
    cancelled: Callable[[], bool]
    limits: Limits
    stalled: int = 0

    def run(self) -> DialogueResult:
        for round_number in range(1, self.limits.max_rounds + 1):
            last = round_number == self.limits.max_rounds
            try:
                self.budget.check()
            except BudgetExceeded as over:
                return self._end("", "budget", str(over))
            reply = self._ask(last)
            if reply.reason == "cancelled":
                return self._interrupted(reply)
            self.messages.append(reply.message())
            if not reply.calls:
                return self._answered(reply, last)
            stop = self._carry_out(reply, last)
            if stop is not None:
                return self._end(reply.text, *stop)
        raise AssertionError("the last round always ends the dialogue")

    def _ask(self, last: bool) -> Reply:
        messages = tuple(self.messages)
        if last and self.specs and self.limits.max_rounds > 1:
            messages = (*messages, Message("user", ANSWER_NOW))
        request = ModelRequest(messages, self.specs, tool_choice="none" if last and self.specs else "auto")
        return take_turn(self.model, request, self.limits, self.budget, self.cancelled, self.emit)

    def _carry_out(self, reply: Reply, last: bool) -> tuple[Stop, str] | None:
        stop: tuple[Stop, str] | None = None
        if reply.over_budget:
            stop = ("budget", reply.over_budget)
        elif last:
            stop = ("max_rounds", f"The model still asked for tools after {self.limits.max_rounds} rounds.")
        for call in reply.calls:
            if stop is None and self.cancelled():
                stop = ("cancelled", "Interrupted.")
            if stop is not None:
                self.messages.append(self.runner.skip(call, "the dialogue was stopped"))
                continue
            answered = self.runner.answer(call)
            self.messages.append(answered.message)
            self.stalled = 0 if answered.ok else self.stalled + 1
            if self.stalled >= self.limits.max_repeats:
                what = "repeated the same call" if answered.repeated else "made calls that fail"
                stop = ("repeated_calls", f"The model {what} {self.stalled} times in a row and was stopped.")
        return stop

    def _answered(self, reply: Reply, last: bool) -> DialogueResult:
        note = reply.over_budget
        if reply.reason in ("length", "content_filter"):
            return self._end(reply.text, "cut_short", f"The answer was cut short ({reply.reason}). {note}".strip())
        if not reply.text.strip():
            return self._end("", "cut_short", f"The model gave an empty answer. {note}".strip())
        if last and self.limits.max_rounds > 1:
            note = f"Answered after {self.limits.max_rounds} rounds, the most allowed. {note}".strip()
        return self._end(reply.text, "answered", note)

    def _interrupted(self, reply: Reply) -> DialogueResult:
        if self.cancelled() or not self.budget.out_of_time():
            return self._end(reply.text, "cancelled", "Interrupted.")
        return self._end(reply.text, "budget", "The seconds allowed for this question are over (budget.max_seconds).")

    def _end(self, text: str, stop: Stop, note: str) -> DialogueResult:
        return DialogueResult(text, stop, note, tuple(self.messages))
