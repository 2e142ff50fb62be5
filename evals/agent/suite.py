"""Carries the questions out: each run is diagnosed once, each profile is asked, and every answer is scored twice."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evals.agent.assertions import Assertion, of_model, of_statements, of_template
from evals.agent.profiles import POLICIES, Listening, policy_model
from evals.agent.questions import Label, Question, question_file
from evals.agent.real_model import REPLIES, SUBSET, RecordedReplies
from evals.agent.scorers import (
    Answered,
    abstained,
    answer_fact,
    both,
    false_claims,
    grounded,
    grounded_path,
    right,
    tool_choice,
)
from evals.suite.case_files import all_cases
from evals.suite.case_schema import Case, RunRef
from evals.suite.run_places import Places, locate
from hermes_agent.config.settings import Settings
from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.llm.model import ChatModel
from hermes_agent.llm.recording import RecordingModel, ReplayModel
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit, Event, ToolCalled
from hermes_agent.model.request import Request
from hermes_agent.model.turn import Turn
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.kinds import NOT_UNDERSTOOD
from hermes_agent.questions.material import Material
from hermes_agent.session import Session
from hermes_agent.statements.attempt import GUESS, Accepted, Declined
from hermes_agent.statements.question import ModelAnswers
from hermes_agent.workflow.diagnose import diagnose
from tools.errors import InputError

TEMPLATE = "template"
PROFILES = (TEMPLATE, *POLICIES)
Score = Callable[[Answered], float | None]
SCORES: dict[str, Score] = {
    "right": right,
    "grounded": grounded,
    "both": both,
    "tool_choice": tool_choice,
    "answer_fact": answer_fact,
    "abstained": abstained,
    "grounded_path": grounded_path,
}


@dataclass(frozen=True)
class Scored:
    """One answer of one profile: ``own`` scores the model's text before the checker, ``shown`` what a user reads."""

    question: Question
    profile: str
    own: dict[str, float | None]
    shown: dict[str, float | None]
    own_false: tuple[str, ...]
    shown_false: tuple[str, ...]
    by: str  # "model" where some of its statements were shown
    text: str  # the whole answer as a user reads it
    own_text: str  # what the model wrote
    understood: bool  # by the templates


@dataclass(frozen=True)
class ModelFactory:
    """Models by profile: a policy, or a recording or endpoint under ``folder``."""

    profile: str
    folder: Path | None = None  # recordings, one file for each question
    live: ChatModel | None = None
    settings: Settings = field(default_factory=lambda: Settings(cache_dir=None))  # window and budget of a live model
    in_order: bool = False  # a recording is played in its order, whatever is asked

    def model(self, question: Question) -> ChatModel:
        """The model for one question."""
        file = None if self.folder is None else self.folder / f"{question.id}.jsonl"
        if self.live is not None and file is not None:
            file.unlink(missing_ok=True)  # of an earlier recording
        if self.live is not None:
            return self.live if file is None else RecordingModel(self.live, file)
        if file is not None:
            return RecordedReplies(file) if self.in_order else ReplayModel(file)
        return policy_model(self.profile)


class _Answers(ModelAnswers):
    """Answers of a model, with the statements that passed kept."""

    outcome: Accepted | Declined | None = None

    def answer(
        self, question: str, emit: Emit, cancelled: Callable[[], bool], turns: Sequence[Turn] = ()
    ) -> Accepted | Declined:
        self.outcome = super().answer(question, emit, cancelled, turns)
        return self.outcome


class _ProfiledSession(Session):
    """A session that asks the model of a profile; figures are numbered from the diagnosis on, the run is read once."""

    model: _Answers | None = None

    def __init__(self, request: Request, settings: Settings, diagnosis: Diagnosis, material: Material) -> None:
        super().__init__(request, settings)
        self._material, self._diagnosis = material, diagnosis
        self._discussion = Discussion(diagnosis, material)

    def _model_answers(self) -> ModelAnswers | None:
        return self.model


@dataclass(frozen=True)
class DiagnosedRun:
    """A run under questions."""

    label: Label
    request: Request
    diagnosis: Diagnosis
    material: Material


def diagnosed(
    questions: Iterable[Question], places: Places, cache: Path
) -> Iterator[tuple[DiagnosedRun, list[Question]]]:
    """Yield each run that is at hand with its questions."""
    file, known = question_file(), {case.id: case for case in all_cases(places)}
    by_run: dict[str, list[Question]] = {}
    for question in questions:
        by_run.setdefault(question.run, []).append(question)
    for run, asked in by_run.items():
        label, ref = _labelled(file.runs[run], known)
        if _missing(ref, places):
            continue
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            request = Request(paths=(locate(ref, places, Path(scratch) / "run").path,), cache_dir=cache / "cache")
            material = Material(request)
            yield DiagnosedRun(label, request, diagnose(request, lambda _: None), material), asked
            material.close()


def _missing(ref: RunRef, places: Places) -> str:
    if ref.traces is not None and not places.traces.is_dir():
        return "the folder with real traces is absent; set HERMES_TRACES"
    return "the folder with runs of others is absent" if ref.others and not places.others.is_dir() else ""


def _labelled(label: Label, known: dict[str, Case]) -> tuple[Label, RunRef]:
    """The label with its run: that of a case where it names one."""
    if label.case is None:
        assert label.run is not None
        return label, label.run
    if label.case not in known:
        raise InputError(f"there is no evaluation case {label.case!r}")
    case = known[label.case]
    also = (*case.expected.also_allowed, *case.expected.also_right, *label.also)
    names = [name.partition("/")[0] for name in (*case.expected.causes, *also)]
    split = len(case.expected.causes)
    return label.model_copy(update={"causes": tuple(names[:split]), "also": tuple(names[split:])}), case.run


def scored(question: Question, run: DiagnosedRun, make: ModelFactory) -> Scored:
    """One question put to one profile, scored."""
    settings, tools, diagnosis = make.settings, list[str](), run.diagnosis

    def listen(event: Event) -> None:
        if isinstance(event, ToolCalled):
            tools.append(event.call.name)

    session, listening = _ProfiledSession(run.request, settings, diagnosis, run.material), None
    if make.profile != TEMPLATE:
        listening = Listening(make.model(question))
        session.model = _Answers(session.discussion, listening, settings)
    answer = session.ask(question.asked.ask, listen)
    index = session.discussion.index()
    measure = session.discussion.measure
    facts = [[measure(fact.metric, **fact.arguments) for fact in same] for same in question.facts]
    outcome = session.model.outcome if session.model else None
    passed = _passed(outcome, diagnosis, index) if isinstance(outcome, Accepted) else ()
    template = of_template(_of_templates(answer.text, outcome), diagnosis, index)
    understood = answer.intent != NOT_UNDERSTOOD
    shown = Answered(question, run.label, template, tuple(tools), facts, diagnosis, index, understood)
    words = replace(shown, assertions=passed, understood=True)
    own, text = shown, ""
    if listening is not None:
        text = listening.answers[0] if listening.answers else ""
        own = replace(words, assertions=of_model(text, diagnosis, index))
    false = dict.fromkeys((*false_claims(shown), *false_claims(words)))
    return Scored(
        question,
        make.profile,
        {name: score(own) for name, score in SCORES.items()},
        {name: _of_both(score, shown, words, lied=bool(false)) for name, score in SCORES.items()},
        tuple(false_claims(own)),
        tuple(false),
        answer.by,
        answer.text,
        text,
        understood,
    )


def _of_both(score: Score, template: Answered, words: Answered, *, lied: bool) -> float | None:
    """The score of what is shown: the better one of its two parts, each read alone; with a falsehood never right."""
    first = score(template)
    if first is None or not words.assertions:
        return first
    second = score(words)
    best = max(first, second or 0.0)
    return 0.0 if lied and score in (right, grounded, both) else best


def _passed(outcome: Accepted, diagnosis: Diagnosis, index: EvidenceIndex) -> tuple[Assertion, ...]:
    """The statements of the model that a user reads; a guess is shown as one."""
    pairs = list(zip(outcome.paragraphs, outcome.statements, strict=True))
    guesses = [made for text, made in pairs if text.startswith(GUESS)]
    return of_statements(outcome.statements, diagnosis, index, guesses)


def _of_templates(text: str, outcome: Accepted | Declined | None) -> str:
    """The part of an answer that the templates made."""
    for paragraph in outcome.paragraphs if isinstance(outcome, Accepted) else ():
        text = text.replace(paragraph, "")
    return text


def run_suite(
    questions: Sequence[Question], profiles: Sequence[str], make: Callable[[str], ModelFactory]
) -> tuple[list[Scored], list[Question]]:
    """The scored answers, and the questions whose run is not at hand; InputError where nothing could be asked."""
    places, results, reached = Places.from_environment(os.environ), list[Scored](), set[str]()
    with tempfile.TemporaryDirectory(prefix="hermes-agent-") as cache:
        for run, asked in diagnosed(questions, places, Path(cache)):
            for question in asked:
                reached.add(question.id)
                fitting = [profile for profile in profiles if profile != REPLIES or question.id in SUBSET]
                results += [scored(question, run, make(profile)) for profile in fitting]
    if not results:
        raise InputError("no question was asked: none was chosen, or no run is at hand; a suite of nothing has failed")
    return results, [question for question in questions if question.id not in reached]
