"""A conversation in which a model calls tools, within its budget, its rounds and its context window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hermes_agent.llm.budget import Budget, BudgetExceeded
from hermes_agent.llm.model import ChatModel, Message, ModelRequest, ToolSpec
from hermes_agent.llm.tool_calls import READ_RESULT, CallRunner, DialogueEvent, ResultStore
from hermes_agent.llm.turn import Limits, Reply, take_turn
from tools.agent_tools.tool import Tool
from tools.errors import UsageError

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
