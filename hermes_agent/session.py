"""One run under discussion, for the chat, ``ask`` and ``show``; used from one worker thread at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hermes_agent.config.settings import Settings
from hermes_agent.evidence.citations import cited_ids
from hermes_agent.evidence.journal import journal_of
from hermes_agent.llm.model import Cancelled
from hermes_agent.llm.tool_loop import ResultStore
from hermes_agent.model.diagnosis import CaseRecord, Diagnosis
from hermes_agent.model.events import Emit, Event, SourceWanted, ToolCalled, ignore
from hermes_agent.model.request import Request
from hermes_agent.model.turn import ToolCallRecord, Turn
from hermes_agent.questions.conversation import Conversation, turn_of
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.evidence_lookup import Shown, Table
from hermes_agent.questions.evidence_lookup import look_up as behind
from hermes_agent.questions.intents import NOT_UNDERSTOOD, Answer, cited_evidence, reply
from hermes_agent.questions.material import Material, never
from hermes_agent.questions.tool_context import DiscussedRun, opened_row
from hermes_agent.statements.attempt import Accepted
from hermes_agent.statements.record import introduction, without_words
from hermes_agent.tool_calls import ToolCaller
from hermes_agent.workflow.diagnose import Writer, diagnose
from tools.errors import InputError, UsageError

if TYPE_CHECKING:
    from hermes_agent.statements.question import ModelAnswers
    from tools.agent_tools.result import Result
    from tools.views.profile import Profile

ROW_ID = re.compile(r"[a-z]\d+\.[0-9a-f.]+")
WITHOUT_LEAD = ("", NOT_UNDERSTOOD, "help")

__all__ = ["Answer", "Cancelled", "Session", "Shown", "Table"]


def go_on_without(_: SourceWanted) -> tuple[Path, ...]:
    """No source for now: the diagnosis is shown first, and made again with what is attached then."""
    return ()


class Session:
    """The diagnosis of one request, and everything asked about it. Figures measured on the way keep their ids."""

    def __init__(
        self, request: Request, settings: Settings, diagnosis: Diagnosis | None = None, *, asks: bool = False
    ) -> None:
        """``asks``: the listener may be told of a source that would decide; it is given by ``attach`` afterwards."""
        self._ask = go_on_without if asks else None
        self.settings = settings
        self.request = replace(
            request,
            thresholds=request.thresholds or settings.thresholds,
            private_cases=request.private_cases or settings.cases.private_dir,
        )
        self._material = Material(self.request)
        self._diagnosis: Diagnosis | None = None
        self._discussion: Discussion | None = None
        self._by_model: ModelAnswers | None = None
        self.conversation = Conversation()
        self._results = ResultStore()  # of the diagnosis and of all questions: a handle has one meaning
        if diagnosis is not None:
            self._discuss(diagnosis)

    def diagnose(self, emit: Emit) -> Diagnosis:
        """Makes or finds the diagnosis; see ``hermes_agent.workflow.diagnose``."""
        diagnosis = diagnose(self.request, emit, self._writer(), ask=self._ask, results=self._results)
        self._discuss(diagnosis)
        return diagnosis

    def attach(self, paths: tuple[Path, ...], emit: Emit) -> Diagnosis:
        """The diagnosis with more sources of the same run; without new ones the one there is."""
        new = tuple(path for path in paths if path not in self.request.paths)
        if not new:
            return self.diagnosis
        before = self.request
        self.request = replace(before, paths=(*before.paths, *new))
        try:
            diagnosis = diagnose(self.request, emit, self._writer(), results=self._results)
        except BaseException:
            self.request = before
            raise
        self._material.close()
        self._material = Material(self.request)
        self._discuss(diagnosis)
        return diagnosis

    def _discuss(self, diagnosis: Diagnosis) -> None:
        """Answers are made from what the templates say, never from a model's words."""
        plain = without_words(diagnosis)
        self._diagnosis, self._by_model = diagnosis, None
        journal = journal_of(self.request.cache_dir, plain)
        self._discussion = Discussion(plain, self._material, journal, self._results)

    @property
    def discussion(self) -> Discussion:
        """The material of answers; raises UsageError before there is a diagnosis."""
        if self._discussion is None:
            raise UsageError("there is no diagnosis yet to ask about; diagnose the run first")
        return self._discussion

    @property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis made before, with a model's words where one wrote."""
        return self._diagnosis or self.discussion.diagnosis

    @property
    def cases(self) -> tuple[CaseRecord, ...]:
        """All cases recalled, for the diagnosis and for questions."""
        return self.discussion.cases

    def ask(self, question: str, emit: Emit, cancelled: Callable[[], bool] = never) -> Answer:
        """An answer to free text, by the configured model where it passes; raises Cancelled and InputError."""
        if not question.strip():
            raise UsageError("the question is empty; ask for example: why is it slow?")
        calls: list[ToolCallRecord] = []

        def listen(event: Event) -> None:
            if isinstance(event, ToolCalled):
                calls.append(event.call)
            emit(event)

        answer = self._answered(question, listen, cancelled)
        self.conversation.add(turn_of(question, answer, calls))
        return answer

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The questions of this conversation with their answers, the oldest first."""
        return tuple(self.conversation.turns)

    def go_on(self, turns: Sequence[Turn]) -> None:
        """Continue a conversation after turns that were kept."""
        self.conversation = Conversation.of(turns)
        self._results.number_after(call.handle for turn in turns for call in turn.calls)

    def _answered(self, question: str, emit: Emit, cancelled: Callable[[], bool]) -> Answer:
        self._material.listen(emit, cancelled)
        notes: tuple[str, ...] = ()
        if (model := self._model_answers()) is not None:
            outcome = model.answer(question, emit, cancelled, self.turns)
            if isinstance(outcome, Accepted):
                return self._in_other_words(question, outcome, model.name)
            notes = (f"Answered without the model: {outcome.reason}",)
        found = self._by_templates(question)
        return replace(found, notes=(*found.notes, *notes))

    def _by_templates(self, question: str) -> Answer:
        """The answer of the templates to the question in full, as the conversation before it completes it."""
        resolved = self.conversation.resolve(question)
        if resolved.lacking:
            return Answer(resolved.lacking, intent=NOT_UNDERSTOOD)
        found = reply(self.discussion, resolved.text, resolved.page)
        return replace(found, text=f"{resolved.note}\n\n{found.text}") if resolved.note else found

    def _in_other_words(self, question: str, outcome: Accepted, model: str) -> Answer:
        """The answer of the templates, in short, then the model's words."""
        lead, intent = self._lead(question)
        text = f"{lead}\n\n{introduction(model)}\n\n{outcome.text}"
        return Answer(text, cited_evidence(self.discussion, text), "model", (outcome.note,), intent)

    def _lead(self, question: str) -> tuple[str, str]:
        """The first paragraph of the answer from templates, else the verdict; and the kind of question."""
        diagnosis = self.discussion.diagnosis
        verdict = f"{diagnosis.verdict.capitalize()}: {diagnosis.headline}"
        try:
            found = self._by_templates(question)
        except InputError:  # the run can no longer be read; what is known of it can still be shown
            return verdict, ""
        if found.intent in WITHOUT_LEAD or not cited_ids(found.text):
            return verdict, found.intent
        first = found.text.split("\n\n", 1)[0]
        return (found.text if first.endswith(":") or not cited_ids(first) else first), found.intent

    def _writer(self) -> Writer | None:
        """The writer of the configured model's words."""
        if self.settings.llm.model is None:
            return None
        from hermes_agent.statements.answer import writer_for

        return writer_for(self.settings)

    def _model_answers(self) -> ModelAnswers | None:
        """The configured model, which remembers the conversation; None when none is configured."""
        if self._by_model is None and self.settings.llm.model is not None:
            from hermes_agent.statements.question import model_answers

            self._by_model = model_answers(self.discussion, self.settings)
        return self._by_model

    def show(self, identifier: str) -> Shown:
        """The record of ``E7``, ``C2``, ``A1``, a check, a cause, a row (``e0.1520``) or a tool result (``R3``).

        Raises UsageError and InputError.
        """
        self._material.listen(ignore, never)
        name = identifier.strip().strip("[]")
        if name in self.discussion.results.texts:
            return Shown(name, f"{name}: result of a tool", tuple(self.result(name).splitlines()))
        if ROW_ID.fullmatch(name):
            return opened_row(self.discussion, name)
        return behind(self.discussion, identifier)

    def call(
        self, name: str, arguments: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool] = never
    ) -> Result:
        """The result of a tool on the run, stored and reported; raises UsageError and InputError."""
        self._material.listen(emit, cancelled)
        return ToolCaller(DiscussedRun(self.discussion), emit, self.discussion.results).call(name, arguments)

    def profile(self, emit: Emit, cancelled: Callable[[], bool] = never) -> Profile:
        """The run itself; raises InputError where it can no longer be read."""
        self._material.listen(emit, cancelled)
        return self.discussion.profile()

    def result(self, handle: str) -> str:
        """The whole result of a tool call by its handle (``R3``); UsageError with the handles there are."""
        stored, name = self._results.texts, handle.strip().strip("[]").upper()
        if name not in stored:
            if any(call.handle == name for turn in self.turns for call in turn.calls):
                raise UsageError(f"the text of {name} is no longer kept; ask its question again")
            have = (
                f"the results are {next(iter(stored))} to {next(reversed(stored))}" if stored else "no tool was called"
            )
            raise UsageError(f"there is no tool result {name!r}; {have}")
        return stored[name]

    def close(self) -> None:
        """Close what was opened."""
        self._material.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
