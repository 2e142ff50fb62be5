"""Questions answered by a model with read-only tools, as far as its statements pass the checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hermes_agent.config.settings import Settings
from hermes_agent.llm.budget import Budget
from hermes_agent.llm.connect import capabilities_of, connect, new_budget
from hermes_agent.llm.model import ChatModel, Message
from hermes_agent.llm.sanitize import one_line
from hermes_agent.llm.structured import Interrupted, Structured, ask_structured
from hermes_agent.llm.tool_calls import ResultStore
from hermes_agent.llm.tool_loop import run_dialogue
from hermes_agent.llm.turn import Limits
from hermes_agent.model.events import Emit
from hermes_agent.questions.discussion import Discussion
from hermes_agent.statements.answer import answer_tokens, facts_chars
from hermes_agent.statements.attempt import Accepted, Declined, checked_statements, passing_on, spent_line
from hermes_agent.statements.context import CheckContext, names_of
from hermes_agent.statements.facts import hosts_of, short_facts
from hermes_agent.statements.private import sendable_discussion
from hermes_agent.statements.record import Statements
from hermes_agent.statements.tools import remembering, tools_for
from prompts.load import render
from tools.errors import ModelError

MAX_ROUNDS = 8
QUESTION_CHARS = 4_000
REMEMBERED = 3  # earlier questions that a model sees again with their answers
TOOL_CHARS = 6_000


class ModelAnswers:
    """Answers of one model to questions about one run; remembers the last few, so that a question may refer to them."""

    def __init__(self, discussion: Discussion, model: ChatModel, settings: Settings) -> None:
        self._discussion = discussion
        self._model = model
        self._settings = settings
        self._window = capabilities_of(settings).context_window
        self._earlier: list[Message] = []
        self._tool_texts: list[str] = []  # what tools answered about the run, in this conversation

    def answer(self, question: str, emit: Emit, cancelled: Callable[[], bool]) -> Accepted | Declined:
        """Statements that passed, within the budget of one question, or why there are none.

        Raises Cancelled; what a tool measures stays in the discussion's ledger.
        """
        budget = new_budget(self._settings)
        asked = Message("user", one_line(question, QUESTION_CHARS))
        outcome = self._ask(asked, budget, emit, cancelled)
        cost = spent_line(self._model.name, budget.spent, self._settings.budget.currency)
        if isinstance(outcome, Declined):
            return Declined(f"{outcome.reason} ({cost})")
        answer = Message("assistant", Statements(statements=list(outcome.statements)).model_dump_json())
        self._earlier = [*self._earlier, asked, answer][-2 * REMEMBERED :]
        note = " ".join(part for part in (outcome.note, cost) if part)
        return Accepted(outcome.paragraphs, outcome.statements, note)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def _ask(self, question: Message, budget: Budget, emit: Emit, cancelled: Callable[[], bool]) -> Accepted | Declined:
        tools, store = remembering(tools_for(self._discussion), self._tool_texts), ResultStore()
        window, listen = self._window, passing_on(emit)
        limits = Limits(
            max_rounds=MAX_ROUNDS,
            tool_text_chars=TOOL_CHARS if window is None else min(TOOL_CHARS, max(window, 800)),
            context_tokens=window,
            max_answer_tokens=answer_tokens(window),
        )

        def ask(messages: Sequence[Message]) -> Structured[Statements]:
            result = run_dialogue(self._model, messages, tools, budget, listen, cancelled, limits=limits, store=store)
            if result.stop == "cancelled":
                raise Interrupted(result.note)
            if result.stop != "answered":
                raise ModelError(result.note)
            answer = ask_structured(
                self._model, result.messages, Statements, budget, cancelled, limits=limits, emit=listen
            )
            return Structured(answer.value, answer.messages, answer.note or result.note)

        return checked_statements(ask, self._messages(question), self._context, emit)

    def _messages(self, question: Message) -> tuple[Message, ...]:
        known = short_facts(self._discussion.diagnosis, facts_chars(self._window) // 2)
        rules = render("question", max_rounds=MAX_ROUNDS, diagnosis=known, statements=render("statements"))
        return Message("system", rules), *self._earlier, question

    def _context(self) -> CheckContext:
        about = self._discussion
        names = names_of(about.diagnosis, about.evidence.values(), self._tool_texts)
        return CheckContext(about.diagnosis, about.index(), names)


def model_answers(discussion: Discussion, settings: Settings) -> ModelAnswers | None:
    """The configured model, ready for questions about the discussion; None when none is configured."""
    model = connect(settings, hosts=hosts_of(discussion.diagnosis))
    return None if model is None else ModelAnswers(sendable_discussion(discussion, settings), model, settings)
