"""A text from a model that is let through only when the checks bear it out: one try, one repair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hermes_agent.llm.budget import Spent
from hermes_agent.llm.model import Degraded, Message
from hermes_agent.llm.sanitize import clean, fence, one_line
from hermes_agent.llm.tool_calls import DialogueEvent, ModelText, ToolStarted
from hermes_agent.llm.tool_loop import DialogueResult
from hermes_agent.model.events import AnswerDelta, AnswerRejected, Emit, Notice
from hermes_agent.questions.material import Cancelled
from prompts.load import render
from tools.errors import ModelError

TRIES = 2
COMPLAINTS_TOLD = 12
REASON_CHARS = 240
ARGUMENT_CHARS = 80


@dataclass(frozen=True)
class Fault:
    """One thing wrong with one sentence of a model."""

    sentence: str
    detail: str


@dataclass(frozen=True)
class Accepted:
    """A text that the checks bear out; ``note`` is a sentence for people when it came about with difficulty."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Declined:
    """There is no text of the model's to show; ``reason`` says why in one sentence."""

    reason: str


Ask = Callable[[Sequence[Message]], DialogueResult]
Check = Callable[[str], list[Fault]]


def checked_text(ask: Ask, messages: Sequence[Message], check: Check, emit: Emit) -> Accepted | Declined:
    """What the model writes when asked, provided that ``check`` finds no fault in it.

    A faulty text is sent back once with the complaints. Everything that was streamed and does not stand is taken
    back by AnswerRejected. Raises Cancelled when the person who asked no longer wants it.
    """
    outcome = _tried(ask, messages, check, emit)
    if isinstance(outcome, Declined):
        emit(AnswerRejected(outcome.reason))
    return outcome


def _tried(ask: Ask, messages: Sequence[Message], check: Check, emit: Emit) -> Accepted | Declined:
    faults: list[Fault] = []
    for left in reversed(range(TRIES)):
        try:
            result = ask(messages)
        except ModelError as error:
            return Declined(str(error))
        if result.stop == "cancelled":
            raise Cancelled("The question was cancelled.")
        if result.stop != "answered":
            return Declined(result.note)
        text = clean(result.text).strip()
        faults = check(text)
        if not faults:
            return Accepted(text, result.note)
        if left:
            emit(AnswerRejected(f"{_summary(faults)} It is asked to correct that."))
            messages = (*result.messages, Message("user", render("repair", complaints=_complaints(faults))))
    return Declined(_summary(faults))


def _summary(faults: Sequence[Fault]) -> str:
    count = f"{len(faults)} faults" if len(faults) > 1 else "A fault"
    detail = one_line(faults[0].detail, REASON_CHARS).rstrip(".")
    return f"{count} in what the model wrote: {detail}."


def _complaints(faults: Sequence[Fault]) -> str:
    lines = [
        f"- {one_line(fault.detail, REASON_CHARS)}. Sentence: {one_line(fault.sentence, 2 * REASON_CHARS)}"
        for fault in faults[:COMPLAINTS_TOLD]
    ]
    return fence("\n".join(lines), "complaints of the checker")


def passing_on(emit: Emit) -> Callable[[DialogueEvent], None]:
    """Tells the frontends what a dialogue does, in the events they know."""

    def tell(event: DialogueEvent) -> None:
        match event:
            case ModelText(text):
                emit(AnswerDelta(text))
            case ToolStarted(name=name, arguments=arguments):
                asked = ", ".join(f"{key}={one_line(str(value), ARGUMENT_CHARS)}" for key, value in arguments.items())
                emit(Notice(f"The model asks {name}({asked})."))
            case Degraded(feature, detail):
                emit(Notice(f"The endpoint works without {feature}: {one_line(detail, REASON_CHARS)}"))
            case _:
                pass

    return tell


def spent_line(name: str, spent: Spent, currency: str) -> str:
    """What a model's text cost, for people."""
    about = "about " if spent.estimated else ""
    tokens = spent.prompt_tokens + spent.completion_tokens
    money = "" if spent.cost is None else f", {spent.cost:.4f} {currency}"
    calls = "1 call" if spent.calls == 1 else f"{spent.calls} calls"
    return f"{one_line(name, ARGUMENT_CHARS)}: {calls}, {about}{tokens:,} tokens, {spent.seconds:.1f} s{money}"
