"""Statements of a model that pass the checks: one try, one repair, the rest dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.llm.budget import Spent
from hermes_agent.llm.model import Degraded, Message
from hermes_agent.llm.sanitize import fence, one_line
from hermes_agent.llm.structured import Interrupted, Structured
from hermes_agent.llm.tool_calls import DialogueEvent, ToolStarted
from hermes_agent.model.events import AnswerDelta, AnswerRejected, Emit, Notice
from hermes_agent.questions.material import Cancelled
from hermes_agent.statements.checks import faults_of
from hermes_agent.statements.context import CheckContext
from hermes_agent.statements.record import MOST_STATEMENTS, Statement, Statements
from hermes_agent.statements.render import rendered
from prompts.load import render
from tools.errors import ModelError

TRIES = 2
MOST_COMPLAINTS = 12
REASON_CHARS = 240
ARGUMENT_CHARS = 80
UNCITED = "the answer cites nothing of this run, so nothing in it can be checked; cite what it rests on"


@dataclass(frozen=True)
class Accepted:
    """Paragraphs that passed, with the statements behind them; ``note`` is for people when some were left out."""

    paragraphs: tuple[str, ...]
    statements: tuple[Statement, ...]
    note: str = ""

    @property
    def text(self) -> str:
        """The paragraphs as one text."""
        return "\n\n".join(self.paragraphs)


@dataclass(frozen=True)
class Declined:
    """There is no text of the model's to show; ``reason`` says why in one sentence."""

    reason: str


Ask = Callable[[Sequence[Message]], Structured[Statements]]


@dataclass
class _Attempt:
    """What passed so far, and what the last answer got wrong."""

    emit: Emit
    passed: dict[str, Statement] = field(default_factory=dict)  # by rendered text
    shown: int = 0
    complaints: list[tuple[str, str]] = field(default_factory=list)  # what is wrong, and with which text

    def take(self, statements: Sequence[Statement], context: CheckContext) -> None:
        """Check each statement; show those that pass once one of them cites something."""
        self.complaints = []
        for statement in statements[:MOST_STATEMENTS]:
            if faults := faults_of(statement, context):
                self.complaints.append(("; ".join(faults), statement.text or str(statement.cause)))
            else:
                self.passed.setdefault(rendered(statement, context), statement)
        if not self.grounded:
            self.complaints = self.complaints or [(UNCITED, "all")]
            return
        for text in list(self.passed)[self.shown :]:
            self.emit(AnswerDelta(f"{text}\n\n"))
        self.shown = len(self.passed)

    @property
    def grounded(self) -> bool:
        """Whether something that passed is about this run."""
        return any(statement.kind == "cause" or cited_ids(text) for text, statement in self.passed.items())

    def note(self) -> str:
        """A sentence for people about what was left out."""
        if not self.complaints:
            return ""
        many = len(self.complaints)
        count = f"{many} statements of the model were" if many > 1 else "A statement of the model was"
        return f"{count} left out: {one_line(self.complaints[0][0], REASON_CHARS).rstrip('.')}."


def checked_statements(
    ask: Ask, messages: Sequence[Message], context: Callable[[], CheckContext], emit: Emit
) -> Accepted | Declined:
    """The statements of the model that pass; those that fail are sent back once and then dropped.

    Emits each paragraph as AnswerDelta after it passed, AnswerRejected where nothing can be shown. Raises Cancelled
    when the person who asked no longer wants the answer.
    """
    attempt, reason, note = _Attempt(emit), "", ""
    for _ in range(TRIES):
        try:
            result = ask(messages)
        except Interrupted as error:
            raise Cancelled("The question was cancelled.") from error
        except ModelError as error:
            reason = str(error)
            break
        attempt.take(result.value.statements, context())
        note = result.note
        if not attempt.complaints:
            break
        messages = (*result.messages, Message("user", render("repair", complaints=_complaints(attempt.complaints))))
    if attempt.grounded:
        notes = (attempt.note(), note, reason)
        return Accepted(tuple(attempt.passed), tuple(attempt.passed.values()), " ".join(each for each in notes if each))
    declined = Declined(reason or attempt.note())
    emit(AnswerRejected(declined.reason))
    return declined


def _complaints(complaints: Sequence[tuple[str, str]]) -> str:
    lines = [
        f"- {one_line(what, 2 * REASON_CHARS)}. Statement: {one_line(text, 2 * REASON_CHARS)}"
        for what, text in complaints[:MOST_COMPLAINTS]
    ]
    return fence("\n".join(lines), "complaints of the checker")


def passing_on(emit: Emit) -> Callable[[DialogueEvent], None]:
    """Shows frontends which tools a model calls and what an endpoint cannot do, and nothing that it writes."""

    def pass_on(event: DialogueEvent) -> None:
        match event:
            case ToolStarted(name=name, arguments=arguments):
                asked = ", ".join(f"{key}={one_line(str(value), ARGUMENT_CHARS)}" for key, value in arguments.items())
                emit(Notice(f"The model asks {name}({asked})."))
            case Degraded(feature, detail):
                emit(Notice(f"The endpoint works without {feature}: {one_line(detail, REASON_CHARS)}"))
            case _:
                pass

    return pass_on


def spent_line(name: str, spent: Spent, currency: str) -> str:
    """What a model's text cost, for people."""
    about = "about " if spent.estimated else ""
    tokens = spent.prompt_tokens + spent.completion_tokens
    money = "" if spent.cost is None else f", {spent.cost:.4f} {currency}"
    calls = "1 call" if spent.calls == 1 else f"{spent.calls} calls"
    return f"{one_line(name, ARGUMENT_CHARS)}: {calls}, {about}{tokens:,} tokens, {spent.seconds:.1f} s{money}"
