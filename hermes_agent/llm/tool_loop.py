"""A conversation in which a model calls tools, within its budget, its rounds and its context window."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pydantic import Field

from hermes_agent.llm.budget import Budget, BudgetExceeded, Limits, request_tokens, take_turn
from hermes_agent.llm.model import ChatModel, Degraded, Message, ModelRequest, Reply, ToolCall, ToolSpec
from hermes_agent.llm.sanitize import clean, fence, one_line
from tools.agent_tools.tool import Arguments, Tool
from tools.errors import HermesError, UsageError

_LOG = logging.getLogger(__name__)
QUOTED_CHARS = 200
MAX_STORED_CHARS = 4_000_000  # of one result
MAX_TOTAL_CHARS = 64_000_000  # of all of them; the oldest go first
PAGE_LINES = 60
MAX_PAGE_LINES = 200
READ_RESULT = "read_result"
ANSWER_NOW = "No more tools can be called. Answer with what is known by now, and say what is missing."
EXPLAINING_KEYS = frozenset(
    {"title", "description", "default", "minimum", "maximum", "minLength", "maxLength", "exclusiveMinimum", "examples"}
)
SENTENCE_END = re.compile(r"(?<=\w)[.?]\s")
Stop = Literal["answered", "cut_short", "max_rounds", "repeated_calls", "budget", "cancelled"]


@dataclass(frozen=True)
class ToolStarted:
    """A tool begins; the arguments have been checked."""

    call_id: str
    name: str
    arguments: Mapping[str, object]


DialogueEvent: TypeAlias = ToolStarted | Degraded


class _Lines(Arguments):
    """Lines of one result."""

    handle: str = Field(description="for example R3")
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=PAGE_LINES, ge=1, le=MAX_PAGE_LINES)
    contains: str = Field(default="", description="keep only lines with this text")


class ResultStore:
    """The results of one conversation, by handle (``R1``, ``R2`` ...)."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._count = 0

    def number_after(self, handles: Iterable[str]) -> None:
        """Give none of these handles, which stand in a conversation that was kept, to a new result."""
        self._count = max([self._count, *(int(each[1:]) for each in handles if re.fullmatch(r"R\d{1,9}", each))])

    @property
    def last(self) -> str:
        """The handle that was given out last; "R0" before the first."""
        return f"R{self._count}"

    def restore(self, texts: Mapping[str, str]) -> None:
        """Take over results of a conversation that was kept, under their handles."""
        self.texts = {name: clean(text) for name, text in texts.items() if re.fullmatch(r"R\d{1,9}", name)} | self.texts
        self.number_after(self.texts)

    def put(self, text: str) -> str:
        """Store a result and give it a handle; the text that was stored last keeps its own."""
        stored = clean(text[:MAX_STORED_CHARS])
        if self.texts.get(self.last) == stored:
            return self.last
        self._count += 1
        handle = self.last
        self.texts[handle] = stored
        while len(self.texts) > 1 and sum(map(len, self.texts.values())) > MAX_TOTAL_CHARS:
            del self.texts[next(iter(self.texts))]
        return handle

    def reader(self) -> Tool:
        """The tool with which the model reads on in a result that it was shown the start of."""
        return Tool(READ_RESULT, inspect.cleandoc(read_result.__doc__ or ""), _Lines, self._read)

    def _read(self, asked: Arguments) -> str:
        assert isinstance(asked, _Lines)
        return read_result(self.texts, asked)


def read_result(results: Mapping[str, str], asked: _Lines) -> str:
    """Reads on in an earlier tool result by handle: lines from `offset`, all or those that contain a text."""
    if asked.handle not in results:
        raise UsageError(f"There is no result {asked.handle!r}; there are: {', '.join(results) or 'none yet'}.")
    lines = [line for line in results[asked.handle].splitlines() if asked.contains.lower() in line.lower()]
    page = lines[asked.offset : asked.offset + asked.limit]
    if not page:
        return f"{asked.handle} has {len(lines)} such lines; none from line {asked.offset} on."
    last = asked.offset + len(page) - 1
    return "\n".join([f"{asked.handle}, lines {asked.offset} to {last} of {len(lines)}:", *page])


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
    """Let the model answer with the help of ``tools``; raises ModelError, UsageError for a wrong tool name."""
    wrong = [name for name, tool in tools.items() if tool.name != name or name == READ_RESULT]
    if wrong:
        raise UsageError(f"The tool {tools[wrong[0]].name} cannot be registered as {wrong[0]}.")
    results = store or ResultStore()
    offered = {**tools, READ_RESULT: results.reader()} if tools else {}
    dialogue = _Dialogue(model, list(messages), offered, results, budget, emit, cancelled, limits or Limits())
    return dialogue.run()


def shortened(schema: Mapping[str, object]) -> dict[str, object]:
    """A JSON Schema without what only explains: titles, descriptions, defaults, bounds and the choice of null."""
    choices = schema.get("anyOf")
    options = [each for each in choices if each != {"type": "null"}] if isinstance(choices, list) else []
    if len(options) == 1:
        return shortened(options[0])
    short: dict[str, object] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs") and isinstance(value, Mapping):
            short[key] = {name: _short(each) for name, each in value.items()}
        elif key not in EXPLAINING_KEYS:
            short[key] = _short(value)
    return short


def _short(value: object) -> object:
    if isinstance(value, list):
        return [_short(each) for each in value]
    return shortened(value) if isinstance(value, Mapping) else value


def _first_sentence(text: str) -> str:
    return SENTENCE_END.split(text, maxsplit=1)[0].rstrip(".") + "."


@dataclass
class _Dialogue:
    model: ChatModel
    messages: list[Message]
    tools: Mapping[str, Tool]
    store: ResultStore
    budget: Budget
    emit: Callable[[DialogueEvent], None]
    cancelled: Callable[[], bool]
    limits: Limits
    seen: dict[str, str] = field(default_factory=dict)  # what came of a call, by name and arguments
    stalled: int = 0  # calls in a row that got nowhere

    def run(self) -> DialogueResult:
        for round_number in range(1, self.limits.max_rounds + 1):
            try:
                self.budget.check()
            except BudgetExceeded as over:
                return self._end("", "budget", str(over))
            last = self._last(round_number)
            reply = self._ask(bool(last))
            if reply.reason == "cancelled":
                return self._interrupted(reply)
            self.messages.append(reply.message())
            if not reply.calls:
                return self._answered(reply, last)
            if (stop := self._carry_out(reply, last)) is not None:
                return self._end(reply.text, *stop)
        raise AssertionError("the last round always ends the dialogue")

    def _last(self, round_number: int) -> str:
        """What makes this the last round, "" where it is not."""
        if round_number == self.limits.max_rounds:
            return f"{self.limits.max_rounds} rounds, the most allowed" if round_number > 1 else "one round"
        used = request_tokens(ModelRequest(tuple(self.messages), self._specs()))
        return "the last call that the budget allows" if self.tools and self.budget.last_call(used) else ""

    def _specs(self) -> tuple[ToolSpec, ...]:
        short = self.limits.short_schemas
        return tuple(
            ToolSpec(tool.name, _first_sentence(tool.description), shortened(tool.schema))
            if short
            else ToolSpec(tool.name, tool.description, tool.schema)
            for tool in self.tools.values()
        )

    def _ask(self, last: bool) -> Reply:
        messages = tuple(self.messages)
        if last and self.tools and self.limits.max_rounds > 1:
            messages = (*messages, Message("user", ANSWER_NOW))
        specs = self._specs()
        request = ModelRequest(messages, specs, tool_choice="none" if last and specs else "auto")
        return take_turn(self.model, request, self.limits, self.budget, self.cancelled, self.emit)

    def _carry_out(self, reply: Reply, last: str) -> tuple[Stop, str] | None:
        """Answer every call: an unanswered one makes the conversation invalid."""
        stop: tuple[Stop, str] | None = None
        if reply.over_budget:
            stop = ("budget", reply.over_budget)
        elif last:
            stop = ("max_rounds", f"The model still asked for tools after {last}.")
        for call in reply.calls:
            if stop is None and self.cancelled():
                stop = ("cancelled", "Interrupted.")
            if stop is not None:
                self._answer(call, "Not run: the dialogue was stopped.")
                continue
            fault = self._call(call)
            self.stalled = self.stalled + 1 if fault else 0
            if self.stalled >= self.limits.max_repeats:
                stop = ("repeated_calls", f"The model {fault} {self.stalled} times in a row and was stopped.")
        return stop

    def _call(self, call: ToolCall) -> str:
        """Carry out one call; what fails becomes a sentence for the model and is returned, never an exception."""
        tool = self.tools.get(call.name)
        if tool is None:
            return self._failed(call, "there is no such tool", f"use one of: {', '.join(sorted(self.tools))}")
        try:
            asked = tool.check(call.arguments_json or "{}")
        except UsageError as error:
            schema = shortened(tool.schema) if self.limits.short_schemas else tool.schema
            wanted = json.dumps(schema, ensure_ascii=False)
            return self._failed(call, str(error), f"call it again with arguments that fit {wanted}")
        key = f"{call.name} {asked.model_dump_json()}"
        if key in self.seen:
            advice = "read that result, ask something else, or answer"
            self._failed(call, f"the same call was made before, see {self.seen[key]}", advice)
            return "repeated the same call"
        self.emit(ToolStarted(call.id, call.name, asked.model_dump(mode="json", exclude_unset=True)))
        self.seen[key] = "the failure above"
        try:
            text = tool.function(asked)
        except HermesError as error:
            return self._failed(call, str(error), "change the arguments or use another tool")
        except Exception as error:  # the outermost boundary of a tool: a defect in one must not end the dialogue
            _LOG.exception("tool %s failed on %s", call.name, asked)
            return self._failed(call, f"internal error {type(error).__name__}", "use another tool")
        handle = self.seen[key] = self.store.put(text)
        stored, most = self.store.texts[handle], self.limits.tool_text_chars
        shown = fence(clean(stored, most), f"{handle} from {call.name}")
        if len(stored) > most:
            shown += (
                f"\n{most:,} of {len(stored):,} characters shown; {READ_RESULT} with handle {handle} gives the rest."
            )
        self._answer(call, shown)
        return ""

    def _failed(self, call: ToolCall, what: str, advice: str) -> str:
        asked = f"{one_line(call.name, QUOTED_CHARS)}({one_line(call.arguments_json, QUOTED_CHARS)})"
        text = f"Asked: {asked}\nFailed: {one_line(what, 3 * QUOTED_CHARS)}\nTry: {advice}"
        self._answer(call, fence(text, f"failure of {call.name}"))
        return "made calls that fail"

    def _answer(self, call: ToolCall, text: str) -> None:
        self.messages.append(Message("tool", text, tool_call_id=call.id))

    def _answered(self, reply: Reply, last: str) -> DialogueResult:
        note = reply.over_budget
        if reply.reason in ("length", "content_filter"):
            return self._end(reply.text, "cut_short", f"The answer was cut short ({reply.reason}). {note}".strip())
        if not reply.text.strip():
            return self._end("", "cut_short", f"The model gave an empty answer. {note}".strip())
        if last and self.limits.max_rounds > 1:
            note = f"Answered after {last}. {note}".strip()
        return self._end(reply.text, "answered", note)

    def _interrupted(self, reply: Reply) -> DialogueResult:
        if self.cancelled() or not self.budget.out_of_time():
            return self._end(reply.text, "cancelled", "Interrupted.")
        return self._end(reply.text, "budget", "The seconds allowed for this question are over (budget.max_seconds).")

    def _end(self, text: str, stop: Stop, note: str) -> DialogueResult:
        return DialogueResult(text, stop, note, tuple(self.messages))
