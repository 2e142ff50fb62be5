"""The diagnosis in a model's words too, after the template's, if they stand up to the evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hermes_agent.config.settings import Settings
from hermes_agent.evidence.grounds import grounds
from hermes_agent.llm.budget import Budget
from hermes_agent.llm.connect import capabilities_of, connect, new_budget
from hermes_agent.llm.model import ChatModel, Message
from hermes_agent.llm.tool_loop import DialogueResult, run_dialogue
from hermes_agent.llm.turn import Limits
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit, Notice
from hermes_agent.questions.material import never
from hermes_agent.workflow.diagnose import Writer
from hermes_agent.writing.attempt import Accepted, Fault, checked_text, passing_on, spent_line
from hermes_agent.writing.claims import Bearings, faults
from hermes_agent.writing.facts import answer_facts, hosts_of
from hermes_agent.writing.form import paragraphs, with_words, words_of_model
from hermes_agent.writing.private import sendable
from prompts.load import render

MAX_SENTENCES = 14
MAX_ANSWER_TOKENS = 8_000  # a thinking model counts its thoughts in
FACTS_CHARS = 30_000  # where the window is not known
RESERVED_TOKENS = 2_000  # of a known window, for the rules, the answer and its repair
CHARS_PER_TOKEN = 3
LEAST_CHARS = 2_000
KEPT = "The answer was written from templates, not by the model"
CHECKED = "A model put the answer into its own words as well; their ids and figures were checked against the evidence."


class Written(NamedTuple):
    """The diagnosis, and a sentence for people about who wrote its answer."""

    diagnosis: Diagnosis
    note: str


def writer_for(settings: Settings) -> Writer | None:
    """What rewrites the answer of a diagnosis with the configured model; None when none is configured."""
    if settings.llm.model is None:
        return None

    def write(diagnosis: Diagnosis, emit: Emit) -> Diagnosis:
        model = connect(settings, hosts=hosts_of(diagnosis))
        assert model is not None
        budget = new_budget(settings)
        window = capabilities_of(settings).context_window
        written, note = write_answer(sendable(diagnosis, settings), model, budget, emit, window=window)
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
) -> Written:
    """The diagnosis with the model's words after its own, or as it was when they do not stand up to the evidence.

    Streams AnswerDelta; what does not stand is taken back by AnswerRejected. Never raises for what a model or its
    endpoint does; raises Cancelled. ``window`` is the model's context in tokens, where it is known.
    """

    def ask(messages: Sequence[Message]) -> DialogueResult:
        limits = Limits(max_rounds=1, context_tokens=window, max_answer_tokens=answer_tokens(window))
        return run_dialogue(model, messages, {}, budget, passing_on(emit), cancelled, limits=limits)

    outcome = checked_text(ask, _messages(diagnosis, facts_chars(window)), lambda text: _faults(text, diagnosis), emit)
    if not isinstance(outcome, Accepted):
        return Written(diagnosis, f"{KEPT}: {outcome.reason}")
    written = with_words(diagnosis, paragraphs(outcome.text), model.name)
    return Written(written, f"{CHECKED} {outcome.note}".strip())


def facts_chars(window: int | None) -> int:
    """How long the facts may be for a window of so many tokens."""
    if window is None:
        return FACTS_CHARS
    return min(max((window - RESERVED_TOKENS) * CHARS_PER_TOKEN, LEAST_CHARS), FACTS_CHARS)


def answer_tokens(window: int | None) -> int:
    """How long one answer may be."""
    return MAX_ANSWER_TOKENS if window is None else min(MAX_ANSWER_TOKENS, max(window // 4, 256))


def _messages(diagnosis: Diagnosis, limit_chars: int) -> tuple[Message, ...]:
    facts = answer_facts(diagnosis, limit_chars)
    told = render(
        "answer_facts",
        diagnosis=facts.diagnosis,
        evidence=facts.evidence,
        cases=facts.cases,
        not_checked=facts.not_checked,
    )
    return Message("system", render("answer", max_sentences=MAX_SENTENCES)), Message("user", told)


def _faults(text: str, diagnosis: Diagnosis) -> list[Fault]:
    """Faults of the text in the form in which it would be kept."""
    if not paragraphs(text):
        return [Fault("", "the answer is empty")]
    evidence = {record.id: record for record in diagnosis.evidence}
    bearings = Bearings(diagnosis, grounds(diagnosis), evidence, frozenset(case.url for case in diagnosis.cases))
    return faults("\n".join(paragraphs(text)), bearings, cite_all=True)
