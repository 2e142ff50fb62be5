"""Questions answered by a model with read-only tools, as far as its statements pass the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pydantic import Field

from hermes_agent.config.settings import Settings
from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.llm.budget import Budget, Limits
from hermes_agent.llm.endpoint import capabilities_of, connect, new_budget, span_log
from hermes_agent.llm.model import Cancelled, ChatModel, Message
from hermes_agent.llm.sanitize import fence, one_line
from hermes_agent.llm.spans import SpanLog
from hermes_agent.llm.structured import Structured, ask_structured
from hermes_agent.llm.tool_loop import ANSWER_NOW, ResultStore, run_dialogue
from hermes_agent.model.display import plain
from hermes_agent.model.events import Emit, ignore
from hermes_agent.model.turn import Turn
from hermes_agent.questions.answers.advice import against_baseline, summarise, what_to_change
from hermes_agent.questions.answers.causes import about
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.reading.question import Question, Subject
from hermes_agent.questions.tool_context import DiscussedRun
from hermes_agent.statements.answer import answer_tokens, facts_chars
from hermes_agent.statements.attempt import Accepted, Declined, checked_statements, passing_on, spent_line
from hermes_agent.statements.context import CheckContext, names_of
from hermes_agent.statements.facts import hosts_of, short_facts
from hermes_agent.statements.private import sendable_discussion
from hermes_agent.statements.record import Statements
from hermes_agent.statements.tool_choice import is_small, tools_within
from hermes_agent.tool_calls import ToolCaller
from prompts.load import render
from tools.agent_tools.diagnosis import Evidence
from tools.agent_tools.registry import TOOLS
from tools.agent_tools.result import Result
from tools.agent_tools.tool import Arguments, NoArguments, ReadTool, Tool, read_tool
from tools.errors import ModelError, UsageError
from tools.knowledge.taxonomy import causes
from tools.knowledge.thresholds import Thresholds

ANYTHING = Question("", "")
OF_ELSEWHERE = ("cases", "advice")  # what they name is not what this run has
TEXT_CHARS = 20_000
MOST_TEXTS = 32
MAX_ROUNDS = 8
QUESTION_CHARS = 4_000
EARLIER_CHARS = 600
OUTDATED = "(from figures that are not those of the present diagnosis; measure again)"
REMEMBERED = 3  # earlier questions that a model sees again with their answers
TOOL_CHARS, LEAST_TOOL_CHARS = 6_000, 800


class OfCause(Arguments):
    """One cause by its id."""

    cause: str = Field(max_length=60, description="id of a cause, for example operator_dispatch")
    mechanism: str | None = Field(default=None, max_length=60, description="how it happens, to narrow the cause")


class OfAnyCause(Arguments):
    """One cause, or all."""

    cause: str | None = Field(default=None, max_length=60, description="id of a cause; without it all causes found")


def diagnosis_summary(discussion: Discussion, _: NoArguments) -> Result:
    """The diagnosis in short: verdict, causes with their figures, the first change to make, what is open."""
    return Result(text=f"Verdict: {discussion.diagnosis.verdict}\n{summarise(discussion, ANYTHING)}")


def explain_cause(discussion: Discussion, asked: OfCause) -> Result:
    """Evidence for and against one cause: found, small, looked for and absent, open, or not looked for at all."""
    return Result(text=about(discussion, _subject(asked.cause, asked.mechanism)))


def advice(discussion: Discussion, asked: OfAnyCause) -> Result:
    """Changes to make, the largest gain first: how, predicted gain, risk and how to verify."""
    subject = _subject(asked.cause) if asked.cause else None
    return Result(text=what_to_change(discussion, Question("", "", subject=subject)))


def baseline_comparison(discussion: Discussion, _: NoArguments) -> Result:
    """Changes against the baseline run, if the run was diagnosed with one."""
    return Result(text=against_baseline(discussion, ANYTHING))


DIAGNOSIS_TOOLS: tuple[ReadTool[Discussion], ...] = (
    read_tool(diagnosis_summary, NoArguments),
    read_tool(explain_cause, OfCause),
    read_tool(advice, OfAnyCause),
    read_tool(baseline_comparison, NoArguments),
)


def tools_for(discussion: Discussion, emit: Emit = ignore, store: ResultStore | None = None) -> dict[str, Tool]:
    """All tools by name, ready to be called on this discussion; every call is reported and its result stored."""
    run = DiscussedRun(discussion)
    caller = ToolCaller(run, emit, store or ResultStore())
    tools = [caller.bound(tool, discussion) for tool in DIAGNOSIS_TOOLS]
    tools += [caller.bound(tool, run) for tool in TOOLS]
    return {tool.name: tool for tool in tools}


def remembering(tools: Mapping[str, Tool], texts: list[str]) -> dict[str, Tool]:
    """The same tools; what they answer about the run is added to ``texts``, what they say of cases is not."""
    return {name: replace(tool, function=_remembering(tool, texts)) for name, tool in tools.items()}


def _remembering(tool: Tool, texts: list[str]) -> Callable[[Arguments], str]:
    def call(asked: Arguments) -> str:
        text = tool.function(asked)
        of_case = isinstance(asked, Evidence) and (asked.id or "").strip("[ ").upper()[:1] in ("A", "C")
        if tool.name not in OF_ELSEWHERE and not of_case:
            texts.append(text[:TEXT_CHARS])
            del texts[:-MOST_TEXTS]
        return text

    return call


def _subject(cause: str, mechanism: str | None = None) -> Subject:
    known = causes().get(cause)
    if known is None:
        raise UsageError(f"there is no cause {cause!r}; the causes are {', '.join(causes())}")
    if mechanism not in (None, *known.mechanisms):
        have = ", ".join(known.mechanisms) or "none"
        raise UsageError(f"{cause} has no mechanism {mechanism!r}; it has {have}")
    return Subject(plain(mechanism or cause), (cause,), mechanism)


def earlier_turns(turns: Sequence[Turn], index: EvidenceIndex) -> str:
    """The turns before as a model reads them: question, the answer's beginning, and the ids that may still be cited.

    Figures of an earlier diagnosis of the run are no evidence any more; such an answer is left out.
    """
    lines = []
    for turn in turns:
        past = [name for name in turn.ids if name not in index]
        answer = OUTDATED if past else one_line(turn.answer, EARLIER_CHARS)
        ids = ", ".join(name for name in turn.ids if name in index)
        lines.append(f"Asked: {one_line(turn.question, EARLIER_CHARS)}\nAnswered: {answer}\nIds: {ids}")
    return fence("\n".join(lines), "earlier in this conversation")


class ModelAnswers:
    """Answers of one model to questions about one run; it reads the turns before, which a question may refer to."""

    def __init__(
        self, discussion: Discussion, model: ChatModel, settings: Settings, spans: SpanLog | None = None
    ) -> None:
        self._spans = spans
        self._discussion = discussion
        self._model = model
        self._settings = settings
        self._window = capabilities_of(settings).context_window
        self._tool_texts: list[str] = []  # what tools answered about the run, in this conversation

    def answer(
        self, question: str, emit: Emit, cancelled: Callable[[], bool], turns: Sequence[Turn] = ()
    ) -> Accepted | Declined:
        """Statements that passed, within the budget of one question, or why there are none; raises Cancelled."""
        budget = new_budget(self._settings)
        if self._spans is not None:
            self._spans.begin()
            emit = self._spans.listening(emit)
        outcome = self._ask(Message("user", one_line(question, QUESTION_CHARS)), turns, budget, emit, cancelled)
        cost = spent_line(self._model.name, budget.spent, self._settings.budget.currency)
        if isinstance(outcome, Declined):
            return Declined(f"{outcome.reason} ({cost})")
        note = " ".join(part for part in (outcome.note, cost) if part)
        return Accepted(outcome.paragraphs, outcome.statements, note)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def _ask(
        self,
        question: Message,
        turns: Sequence[Turn],
        budget: Budget,
        emit: Emit,
        cancelled: Callable[[], bool],
    ) -> Accepted | Declined:
        store = self._discussion.results
        window, listen = self._window, passing_on(emit)
        offered = tools_within(tools_for(self._discussion, emit, store), question.content, window)
        tools = remembering(offered, self._tool_texts)
        limits = Limits(
            max_rounds=MAX_ROUNDS,
            tool_text_chars=TOOL_CHARS if window is None else min(TOOL_CHARS, max(window // 2, LEAST_TOOL_CHARS)),
            context_tokens=window,
            max_answer_tokens=answer_tokens(window),
            short_schemas=is_small(window),
        )

        def ask(messages: Sequence[Message]) -> Structured[Statements]:
            result = run_dialogue(self._model, messages, tools, budget, listen, cancelled, limits=limits, store=store)
            if result.stop == "cancelled":
                raise Cancelled(result.note)
            known, stopped = result.messages, result.stop != "answered"
            if stopped:  # one forced answer from what is known by then, if the budget allows it
                known = (*known, Message("user", ANSWER_NOW))
            try:
                answer = ask_structured(self._model, known, Statements, budget, cancelled, limits=limits, emit=listen)
            except ModelError as error:
                said = str(error) not in result.note
                raise ModelError(f"{result.note} {error}" if stopped and said else str(error)) from error
            note = f"{result.note} It answered with what was known by then." if stopped else result.note
            return Structured(answer.value, answer.messages, answer.note or note)

        return checked_statements(ask, self._messages(question, turns), self._context, emit)

    def _messages(self, question: Message, turns: Sequence[Turn]) -> tuple[Message, ...]:
        diagnosis, window = self._discussion.diagnosis, self._window
        if window is not None and is_small(window):
            known = short_facts(diagnosis, max(window // 2, LEAST_TOOL_CHARS))
            rules = render("question_small", max_rounds=MAX_ROUNDS, diagnosis=known)
        else:
            known = short_facts(diagnosis, facts_chars(window) // 2)
            rules = render("question", max_rounds=MAX_ROUNDS, diagnosis=known, statements=render("statements"))
        small = is_small(window)
        earlier = (
            [Message("user", earlier_turns(turns[-(1 if small else REMEMBERED) :], self._discussion.index()))]
            if turns
            else []
        )
        return Message("system", rules), *earlier, question

    def _context(self) -> CheckContext:
        about = self._discussion
        names = names_of(about.diagnosis, about.evidence.values(), self._tool_texts)
        return CheckContext(about.diagnosis, about.index(), names, Thresholds(self._settings.thresholds))


def model_answers(discussion: Discussion, settings: Settings) -> ModelAnswers | None:
    """The configured model, ready for questions about the discussion; None when none is configured."""
    spans = span_log(settings)
    model = connect(settings, hosts=hosts_of(discussion.diagnosis), spans=spans)
    return None if model is None else ModelAnswers(sendable_discussion(discussion, settings), model, settings, spans)
