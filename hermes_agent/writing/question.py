"""Questions answered by a model with tools that only read, if the answer stands up to the evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hermes_agent.config.settings import Settings
from hermes_agent.evidence.verifier import cited_ids
from hermes_agent.llm.budget import Budget
from hermes_agent.llm.connect import capabilities_of, connect, new_budget
from hermes_agent.llm.model import ChatModel, Message
from hermes_agent.llm.sanitize import one_line
from hermes_agent.llm.tool_calls import ResultStore
from hermes_agent.llm.tool_loop import DialogueResult, run_dialogue
from hermes_agent.llm.turn import Limits
from hermes_agent.model.events import Emit
from hermes_agent.questions.discussion import Discussion
from hermes_agent.writing.answer import answer_tokens, facts_chars
from hermes_agent.writing.attempt import Accepted, Declined, Fault, checked_text, passing_on, spent_line
from hermes_agent.writing.claims import Bearings, faults
from hermes_agent.writing.facts import hosts_of, short_facts
from hermes_agent.writing.form import paragraphs
from hermes_agent.writing.private import sendable_discussion
from hermes_agent.writing.tools import heard, tools_for
from prompts.load import render

MAX_ROUNDS = 8
QUESTION_CHARS = 4_000
REMEMBERED = 3  # earlier questions with their answers that a model is told again
TOOL_CHARS = 6_000
GENERAL = "the answer cites nothing of this run, so nothing in it can be checked; cite what it rests on"


class ModelAnswers:
    """Answers of one model to questions about one run; remembers the last few, so that a question may refer to them."""

    def __init__(self, discussion: Discussion, model: ChatModel, settings: Settings) -> None:
        self._discussion = discussion
        self._model = model
        self._settings = settings
        self._window = capabilities_of(settings).context_window
        self._told: list[tuple[str, str]] = []
        self._heard: list[str] = []  # what tools answered about the run, in this conversation

    def answer(self, question: str, emit: Emit, cancelled: Callable[[], bool]) -> Accepted | Declined:
        """A verified answer within the budget of one question, or why there is none.

        Raises Cancelled; what a tool measures stays in the discussion's ledger.
        """
        budget = new_budget(self._settings)
        outcome = self._ask(one_line(question, QUESTION_CHARS), budget, emit, cancelled)
        cost = spent_line(self._model.name, budget.spent, self._settings.budget.currency)
        if isinstance(outcome, Declined):
            return Declined(f"{outcome.reason} ({cost})")
        text = "\n\n".join(paragraphs(outcome.text))
        self._told = [*self._told, (question, text)][-REMEMBERED:]
        return Accepted(text, " ".join(part for part in (outcome.note, cost) if part))

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def _ask(self, question: str, budget: Budget, emit: Emit, cancelled: Callable[[], bool]) -> Accepted | Declined:
        tools, store = heard(tools_for(self._discussion), self._heard), ResultStore()
        window = self._window
        limits = Limits(
            max_rounds=MAX_ROUNDS,
            tool_text_chars=TOOL_CHARS if window is None else min(TOOL_CHARS, max(window, 800)),
            context_tokens=window,
            max_answer_tokens=answer_tokens(window),
        )

        def ask(messages: Sequence[Message]) -> DialogueResult:
            return run_dialogue(
                self._model, messages, tools, budget, passing_on(emit), cancelled, limits=limits, store=store
            )

        return checked_text(ask, self._messages(question), lambda text: self._faults(text, question), emit)

    def _messages(self, question: str) -> tuple[Message, ...]:
        known = short_facts(self._discussion.diagnosis, facts_chars(self._window) // 2)
        earlier = [
            message
            for asked, answered in self._told
            for message in (Message("user", asked), Message("assistant", answered))
        ]
        rules = render("question", max_rounds=MAX_ROUNDS, diagnosis=known)
        return Message("system", rules), *earlier, Message("user", question)

    def _faults(self, text: str, question: str) -> list[Fault]:
        if not paragraphs(text):
            return [Fault("", "the answer is empty")]
        about = self._discussion
        bearings = Bearings(
            about.diagnosis,
            about.grounds(),
            about.evidence,
            frozenset(each.url for each in about.cases),
            told=tuple(self._heard),
            asked=question,
        )
        found = faults("\n".join(paragraphs(text)), bearings, cite_all=False)
        return found if found or cited_ids(text) else [Fault("", GENERAL)]


def model_answers(discussion: Discussion, settings: Settings) -> ModelAnswers | None:
    """The configured model, ready for questions about the discussion; None when none is configured."""
    model = connect(settings, hosts=hosts_of(discussion.diagnosis))
    return None if model is None else ModelAnswers(sendable_discussion(discussion, settings), model, settings)
