"""The diagnosis in a model's words too, after the template's, as far as they pass the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hermes_agent.config.settings import Settings
from hermes_agent.evidence.index import evidence_index
from hermes_agent.llm.budget import Budget, Limits
from hermes_agent.llm.endpoint import capabilities_of, connect, new_budget, span_log
from hermes_agent.llm.model import ChatModel, Message
from hermes_agent.llm.structured import Structured, ask_structured
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit, Notice
from hermes_agent.questions.material import never
from hermes_agent.statements.attempt import Accepted, checked_statements, passing_on, spent_line
from hermes_agent.statements.context import CheckContext, names_of
from hermes_agent.statements.facts import answer_facts, hosts_of
from hermes_agent.statements.private import sendable
from hermes_agent.statements.record import MOST_STATEMENTS, Statements, with_words, words_of_model
from hermes_agent.workflow.diagnose import Writer
from prompts.load import render
from tools.knowledge.thresholds import Thresholds

MAX_ANSWER_TOKENS = 8_000  # a thinking model counts its thoughts in
FACTS_CHARS = 30_000  # where the window is not known
RESERVED_TOKENS = 2_000  # of a known window, for the rules, the answer and its repair
CHARS_PER_TOKEN = 3
LEAST_CHARS = 2_000
FROM_TEMPLATES = "The answer was written from templates, not by the model"
CHECKED = "A model added statements of its own; their figures and names were filled in from the evidence."


class Written(NamedTuple):
    """The diagnosis, and a sentence for people about who wrote its answer."""

    diagnosis: Diagnosis
    note: str


def writer_for(settings: Settings) -> Writer | None:
    """A function that adds the configured model's statements to a diagnosis; None when no model is configured."""
    if settings.llm.model is None:
        return None

    def write(diagnosis: Diagnosis, emit: Emit) -> Diagnosis:
        model = connect(settings, hosts=hosts_of(diagnosis), spans=span_log(settings))
        assert model is not None
        budget = new_budget(settings)
        window = capabilities_of(settings).context_window
        sent, limits = sendable(diagnosis, settings), settings.thresholds
        written, note = write_answer(sent, model, budget, emit, window=window, thresholds=limits)
        note = f"{note} ({spent_line(model.name, budget.spent, settings.budget.currency)})"
        emit(Notice(note))
        if words := words_of_model(written):  # what was sent may lack sentences that are shown
            diagnosis = with_words(diagnosis, words, model.name)
        return diagnosis.model_copy(update={"notes": [*diagnosis.notes, note]})

    return write


def write_answer(
    diagnosis: Diagnosis,
    model: ChatModel,
    budget: Budget,
    emit: Emit,
    cancelled: Callable[[], bool] = never,
    window: int | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> Written:
    """The diagnosis with the model's statements that pass, emitted as AnswerDelta; raises only Cancelled.

    ``thresholds``: the user's own.
    """
    limits = Limits(context_tokens=window, max_answer_tokens=answer_tokens(window))
    names = names_of(diagnosis, diagnosis.evidence)
    context = CheckContext(diagnosis, evidence_index(diagnosis), names, Thresholds(thresholds or {}))

    def ask(messages: Sequence[Message]) -> Structured[Statements]:
        return ask_structured(model, messages, Statements, budget, cancelled, limits=limits, emit=passing_on(emit))

    asked = render("answer_facts", **answer_facts(diagnosis, facts_chars(window)))
    rules = render("answer", most=MOST_STATEMENTS, statements=render("statements"))
    outcome = checked_statements(ask, (Message("system", rules), Message("user", asked)), lambda: context, emit)
    if not isinstance(outcome, Accepted):
        return Written(diagnosis, f"{FROM_TEMPLATES}: {outcome.reason}")
    written = with_words(diagnosis, outcome.paragraphs, model.name)
    return Written(written, f"{CHECKED} {outcome.note}".strip())


def facts_chars(window: int | None) -> int:
    """The most characters of facts for a window of so many tokens."""
    if window is None:
        return FACTS_CHARS
    return min(max((window - RESERVED_TOKENS) * CHARS_PER_TOKEN, LEAST_CHARS), FACTS_CHARS)


def answer_tokens(window: int | None) -> int:
    """The most tokens of one answer."""
    return MAX_ANSWER_TOKENS if window is None else min(MAX_ANSWER_TOKENS, max(window // 4, 256))
