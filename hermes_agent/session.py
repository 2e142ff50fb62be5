"""One run under discussion, for the chat, ``ask`` and ``show``; used from one worker thread at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hermes_agent.config.settings import Settings
from hermes_agent.evidence.citations import cited_ids
from hermes_agent.evidence.journal import Journal, journal_of
from hermes_agent.evidence.session_ids import CitedRecord, GivenIds, renumbered
from hermes_agent.llm.model import Cancelled
from hermes_agent.llm.tool_loop import ResultStore
from hermes_agent.model.diagnosis import CaseRecord, Diagnosis
from hermes_agent.model.events import DiagnosisReady, Emit, Event, ToolCalled, ignore
from hermes_agent.model.request import Request
from hermes_agent.model.turn import ToolCallRecord, Turn
from hermes_agent.questions.answers.evidence_lookup import Shown, Table
from hermes_agent.questions.answers.evidence_lookup import look_up as behind
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import Answer, cited_evidence
from hermes_agent.questions.kinds import NOT_UNDERSTOOD
from hermes_agent.questions.material import Material, never
from hermes_agent.questions.reading.conversation import Conversation, turn_of
from hermes_agent.questions.several import answered
from hermes_agent.questions.tool_context import DiscussedRun, opened_row
from hermes_agent.statements.attempt import Accepted
from hermes_agent.statements.record import introduction, without_words
from hermes_agent.tool_calls import ToolCaller
from hermes_agent.workflow.diagnose import Kept, Question, Writer, diagnose
from hermes_agent.workflow.own_process import OwnProcess
from hermes_agent.workflow.stored import adds_files
from hermes_agent.workflow.way import StepsNotKeptError
from tools.errors import InputError, UsageError

if TYPE_CHECKING:
    from hermes_agent.statements.question import ModelAnswers
    from hermes_agent.workflow.proposals import Proposals
    from tools.agent_tools.result import Result
    from tools.views.profile import Profile

ROW_ID = re.compile(r"[a-z]\d+\.[0-9a-f.]+")
WITHOUT_LEAD = ("", NOT_UNDERSTOOD, "help")

__all__ = ["Answer", "Cancelled", "Session", "Shown", "Table"]


class Session:
    """The diagnosis of one request, and everything asked about it.

    An id has one meaning for the whole session, also after the run was diagnosed again.
    """

    def __init__(
        self, request: Request, settings: Settings, diagnosis: Diagnosis | None = None, *, asks: bool = False
    ) -> None:
        """``asks``: a person listens, who may be asked for a source that would decide and give it by ``attach``.

        A run is then diagnosed in a process of its own, so that what the person types is not held up.
        """
        self._question = Question() if asks else None
        self._process = OwnProcess() if asks else None
        self.kept: Kept | None = None  # where the steps of a diagnosis are kept, if they are
        self._given = GivenIds()
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

    def diagnose(self, emit: Emit, cancelled: Callable[[], bool] = never) -> Diagnosis:
        """Makes or finds the diagnosis; see ``hermes_agent.workflow.diagnose``."""
        return self._diagnosed(emit, cancelled)

    def attach(self, paths: tuple[Path, ...], emit: Emit, cancelled: Callable[[], bool] = never) -> Diagnosis:
        """The diagnosis with more sources of the same run; raises InputError where they add nothing.

        A diagnosis that waits for a source goes on with it, and asks only the checks again that it affects; where it
        adds nothing, the question stays.
        """
        known = {path.absolute() for path in self.request.paths}
        new = tuple(path.absolute() for path in paths if path.absolute() not in known)
        if not adds_files(self.request.paths, new):
            raise InputError(f"{', '.join(map(str, paths))}: not attached, the files there are read already")
        if self._question is not None and self._question.wanted is not None:
            self._question.answer = new
            diagnosis = self._diagnosed(emit, cancelled)
            if self._question.refused:
                raise InputError(self._question.refused)
            return diagnosis
        before = self.request
        self._ask_for(replace(before, paths=(*before.paths, *new)))
        try:
            return self._diagnosed(emit, cancelled)
        except BaseException:
            self._ask_for(before)
            raise

    def _ask_for(self, request: Request) -> None:
        """Diagnose another request from now on, also after a kill."""
        self.request = request
        if self.kept is not None:
            self.kept.store.set_request(self.kept.session, request)

    def skip(self) -> None:
        """Go on without the source that was asked for: the diagnosis is the one without it."""
        if self._question is not None:
            self._question = Question(request=self._question.request)
        if self._process is not None:
            self._process.close()
        if self.kept is not None:
            with suppress(StepsNotKeptError):  # another chat has dropped the session: nothing of it waits there
                self.kept.drop()

    def _diagnosed(self, emit: Emit, cancelled: Callable[[], bool]) -> Diagnosis:
        """Makes the diagnosis and discusses it from now on, with the ids of this session."""
        given = self._ids()
        write = self._writer()
        if self._process is not None:
            self._process.cancelled = cancelled

        def writer(diagnosis: Diagnosis, listener: Emit) -> Diagnosis:
            own = renumbered(diagnosis, given)
            return own if write is None else write(own, listener)

        def listen(event: Event) -> None:
            emit(
                replace(event, diagnosis=renumbered(event.diagnosis, given))
                if isinstance(event, DiagnosisReady)
                else event
            )

        made = diagnose(
            self.request,
            listen,
            None if write is None else writer,
            kept=self.kept,
            proposals=self._proposals(),
            question=self._question,
            results=self._results,
            process=self._process,
        )
        diagnosis = made if write is not None else renumbered(made, given)
        if self._question is not None:
            self.request = self._question.request or self.request
        self._given = given
        self._material.close()
        self._material = Material(self.request)
        self._discuss(diagnosis)
        return diagnosis

    def _discuss(self, diagnosis: Diagnosis) -> None:
        """Answers are made from what the templates say, never from a model's words.

        Figures share their ids with other programs, except where an id means something else in this session.
        """
        plain = without_words(diagnosis)
        self._diagnosis, self._by_model = diagnosis, None
        shared = journal_of(self.request.cache_dir, plain)
        journal = shared if self._given.agree((*plain.evidence, *plain.cases), shared) else Journal(None)
        self._discussion = Discussion(plain, self._material, journal, self._results, self._given)

    def _ids(self) -> GivenIds:
        """What every id stands for that was given out by now."""
        return self._given if self._discussion is None else self._given.with_records(self._discussion.cited())

    @property
    def cited(self) -> tuple[CitedRecord, ...]:
        """The record of every id of this session, to be kept with it."""
        return tuple(self._ids().records.values())

    @property
    def results(self) -> Mapping[str, str]:
        """The results of tools by handle, to be kept with the session."""
        return self._results.texts

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
            raise UsageError("the question is empty; ask for example: Why is it slow?")
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

    def go_on(
        self, turns: Sequence[Turn], records: Iterable[CitedRecord] = (), results: Mapping[str, str] | None = None
    ) -> None:
        """Continue a conversation that was kept, before the run is diagnosed: ids and handles keep their meaning."""
        self.conversation = Conversation.of(turns)
        self._given = self._given.with_records(records).with_ids(name for turn in turns for name in turn.ids)
        self._results.restore(results or {})
        self._results.number_after(call.handle for turn in turns for call in turn.calls)
        if self._diagnosis is not None:
            self._discuss(renumbered(self._diagnosis, self._given))

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
        found = answered(self.discussion, resolved.text, resolved.page)
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

    def _proposals(self) -> Proposals | None:
        """The configured model's proposals of hypotheses."""
        if self.settings.llm.model is None:
            return None
        from hermes_agent.statements.proposals import proposals_for

        return proposals_for(self.settings)

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
                raise UsageError(
                    f"the text of {name} is no longer kept, it was too old or too long; ask its question again"
                )
            have = (
                f"the results are {next(iter(stored))} to {next(reversed(stored))}" if stored else "no tool was called"
            )
            raise UsageError(f"there is no tool result {name!r}; {have}")
        return stored[name]

    def close(self) -> None:
        """Close what was opened."""
        if self._process is not None:
            self._process.close()
        self._material.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
