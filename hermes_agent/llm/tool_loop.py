"""A conversation kept within a model's context window."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hermes_agent.llm.budget import Budget, BudgetExceeded, message_tokens
from hermes_agent.llm.dialogue_events import DialogueEvent, ModelText, ToolFinished, ToolStarted
from hermes_agent.llm.model import ChatModel, Degraded, Message, ModelRequest, TextDelta, ToolCall, ToolSpec, Usage
from hermes_agent.llm.results import READ_RESULT, ResultStore, StoredResult
from hermes_agent.llm.sanitize import clean, fence, one_line
from hermes_agent.llm.schema_check import refuse_unchecked
from hermes_agent.llm.tool import Tool, arguments_of, spec_of
from hermes_agent.llm.turn import Reply, listen
from tools.errors import HermesError, ModelError, UsageError

ELIDED = "(left out to save room; ask for it again or read it by its handle)"


def fit_window(messages: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """The messages with the oldest tool results left out until about ``tokens`` are enough.

    Questions, answers and the latest tool result stay whatever they need: without them there is nothing to
    answer, and the endpoint's own limit speaks up.
    """
    kept = list(messages)
    total = sum(map(message_tokens, kept))
    results = [index for index, message in enumerate(kept) if message.role == "tool"]
    for index in results[:-1]:
        if total <= tokens:
            break
        shorter = replace(kept[index], content=ELIDED)
        total += message_tokens(shorter) - message_tokens(kept[index])
        kept[index] = shorter
    return tuple(kept)


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


Stop = Literal["answered", "cut_short", "max_rounds", "repeated_calls", "budget", "cancelled"]

ANSWER_NOW = "No more tools can be called. Answer with what is known by now, and say what is missing."


@dataclass(frozen=True)
class Limits:
    """Bounds of one dialogue beside its budget."""

    max_rounds: int = 8  # calls of the model; in the last one it can no longer ask for tools
    tool_text_chars: int = 6_000  # of each result that the model gets to see
    max_repeats: int = 3  # repeated or failed calls in a row before the dialogue is stopped
    context_tokens: int | None = None  # what the prompt may grow to
    max_answer_tokens: int | None = None


@dataclass(frozen=True)
class DialogueResult:
    """How a dialogue ended. ``text`` is an answer when ``stop`` is "answered", else what there was of one."""

    text: str
    stop: Stop
    note: str  # a sentence for the user when it was not simply answered
    messages: tuple[Message, ...]  # the whole conversation, valid to go on with
    results: Mapping[str, StoredResult]
    usage: tuple[Usage, ...]  # of each call


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
    clock: Callable[[], float] = time.monotonic,
) -> DialogueResult:
    """Let the model answer the last message with the help of ``tools``.

    Ends with an answer, a limit, or the user's cancellation, each named in the result; raises ModelError
    when the model itself fails and UsageError for a tool that cannot be given to a model.
    """
    for name, tool in tools.items():
        _admit(name, tool)
    bounds, kept = limits or Limits(), store or ResultStore()
    runner = CallRunner(tools, kept, emit, clock, bounds.tool_text_chars)
    specs = tuple(spec_of(tool) for tool in tools.values())
    if specs:
        specs = (*specs, spec_of(kept.reader()))
    return _Dialogue(model, list(messages), specs, runner, kept, budget, emit, cancelled, bounds).run()


def _admit(name: str, tool: Tool) -> None:
    """The gate: tools that only read, under their own names, with arguments that can be checked in full."""
    if tool.read_only is not True:
        raise UsageError(f"The tool {name} is not read-only; only tools that read can be given to a model.")
    if tool.name != name or name == READ_RESULT:
        raise UsageError(f"The tool {tool.name} cannot be registered as {name}.")
    try:
        refuse_unchecked(tool.schema)
    except ValueError as error:
        raise UsageError(f"The tool {name} cannot be given to a model: {error}.") from error


@dataclass
class _Dialogue:
    model: ChatModel
    messages: list[Message]
    specs: tuple[ToolSpec, ...]
    runner: CallRunner
    store: ResultStore
    budget: Budget
    emit: Callable[[DialogueEvent], None]
    cancelled: Callable[[], bool]
    limits: Limits
    usage: tuple[Usage, ...] = ()
    stalled: int = 0

    def run(self) -> DialogueResult:
        for round_number in range(1, self.limits.max_rounds + 1):
            last = round_number == self.limits.max_rounds
            try:
                self.budget.check()
            except BudgetExceeded as over:
                return self._end("", "budget", str(over))
            reply = self._ask(last)
            over_budget = self._account(reply)
            if reply.reason == "cancelled":
                return self._interrupted(reply)
            self.messages.append(reply.message())
            if not reply.calls:
                return self._answered(reply, last, over_budget)
            stop = self._carry_out(reply, last, over_budget)
            if stop is not None:
                return self._end(reply.text, *stop)
        raise AssertionError("the last round always ends the dialogue")

    def _ask(self, last: bool) -> Reply:
        messages = tuple(self.messages)
        if last and self.specs and len(self.usage):
            messages = (*messages, Message("user", ANSWER_NOW))
        if self.limits.context_tokens is not None:
            messages = fit_window(messages, self.limits.context_tokens - (self.limits.max_answer_tokens or 0))
        request = ModelRequest(
            messages,
            self.specs,
            max_tokens=self.limits.max_answer_tokens,
            tool_choice="none" if last and self.specs else "auto",
        )
        return listen(self.model, request, lambda: self.cancelled() or self.budget.out_of_time(), self._pass_on)

    def _pass_on(self, event: TextDelta | Degraded) -> None:
        self.emit(ModelText(event.text) if isinstance(event, TextDelta) else event)

    def _account(self, reply: Reply) -> str | None:
        self.usage = (*self.usage, reply.usage)
        try:
            self.budget.spend(reply.usage)
        except BudgetExceeded as over:
            return str(over)
        return None

    def _carry_out(self, reply: Reply, last: bool, over_budget: str | None) -> tuple[Stop, str] | None:
        stop: tuple[Stop, str] | None = None
        if over_budget is not None:
            stop = ("budget", over_budget)
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

    def _answered(self, reply: Reply, last: bool, over_budget: str | None) -> DialogueResult:
        note = over_budget or ""
        if reply.reason in ("length", "content_filter"):
            return self._end(reply.text, "cut_short", f"The answer was cut short ({reply.reason}). {note}".strip())
        if not reply.text.strip():
            return self._end("", "cut_short", f"The model gave an empty answer. {note}".strip())
        if last and len(self.usage) > 1:
            note = f"Answered after {self.limits.max_rounds} rounds, the most allowed. {note}".strip()
        return self._end(reply.text, "answered", note)

    def _interrupted(self, reply: Reply) -> DialogueResult:
        if self.cancelled() or not self.budget.out_of_time():
            return self._end(reply.text, "cancelled", "Interrupted.")
        return self._end(reply.text, "budget", "The seconds allowed for this question are over (budget.max_seconds).")

    def _end(self, text: str, stop: Stop, note: str) -> DialogueResult:
        return DialogueResult(text, stop, note, tuple(self.messages), self.store.all(), self.usage)
