"""Tools about runs as a whole: which there are, the diagnosis, questions, a fix put to the test."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Literal

from pydantic import Field

from hermes_agent.confirm import RunOf
from hermes_agent.confirm import confirm as confirmation
from hermes_agent.llm.redact import Redactor
from hermes_agent.mcp_server.payload import shortened, unmasked
from hermes_agent.mcp_server.tool import Call, OfRun, Record, Reply, RunName, server_tool
from hermes_agent.model.diagnosis import AdviceRecord, CaseRecord, CauseRecord, Diagnosis, EvidenceRecord, StepTime
from hermes_agent.questions.kinds import NOT_MEASURABLE, NOT_UNDERSTOOD
from hermes_agent.questions.reading.conversation import Conversation
from hermes_agent.session import Answer
from tools.agent_tools.result import Paged
from tools.knowledge.taxonomy import causes
from tools.metrics.measurement import choice

MOST_LISTED = 200  # of a list in a diagnosis
LONGEST_QUESTION = 4000


class RunRow(Record):
    """A run that can be asked about; ``run`` is its name for the other tools."""

    run: str
    registered: bool
    found: bool = Field(description="whether its files are still there")
    paths: tuple[str, ...]


class Runs(Record):
    """The runs, and the folders inside of which others can be opened by path."""

    rows: tuple[RunRow, ...]
    cursor: str | None
    total: int
    folders: tuple[str, ...]


def list_runs(call: Call, asked: Paged) -> Reply:
    """The runs that can be asked about: the registered ones and those opened so far.

    open_run opens others by path, inside of the folders given.
    """
    registered = call.runs.registered().runs
    rows = [
        RunRow(run=each.name, registered=True, found=not each.missing, paths=tuple(map(str, each.paths)))
        for each in registered.values()
    ]
    rows += [
        RunRow(run=handle, registered=False, found=all(path.exists() for path in paths), paths=tuple(map(str, paths)))
        for handle, paths in call.runs.opened().items()
        if handle not in registered
    ]
    page, cursor = asked.page(rows)
    folders = tuple(map(str, call.runs.allowed.folders))
    lines = [f"{row.run}: {', '.join(row.paths)}{'' if row.found else ' (no longer there)'}" for row in page]
    if cursor is not None:
        lines.append(f"{len(page)} of {len(rows)} runs; cursor {cursor} gives the next.")
    lines.append(f"Runs can be opened by path inside of: {', '.join(folders) or 'no folder'}.")
    redactor = Redactor() if call.runs.settings.redact else None
    return Reply(Runs(rows=tuple(page), cursor=cursor, total=len(rows), folders=folders), "\n".join(lines), redactor)


class OpenRunArguments(OfRun):
    """The run to open and the part of it to use."""

    baseline: str = Field(default="", max_length=4096, description="a run to compare with, named like run")
    steps: tuple[int, int] | None = Field(default=None, description="only these steps, first and last")
    ranks: tuple[int, ...] = Field(default=(), max_length=4096, description="only these ranks")


class DiagnosisAnswer(Record):
    """The diagnosis without its figures one by one: the tool evidence and the resource give those."""

    run: str = Field(description="the run, for further calls")
    verdict: Literal["problem", "healthy", "inconclusive"]
    headline: str
    step_time_ms: StepTime | None
    causes: tuple[CauseRecord, ...] = Field(description="largest saving first")
    advice: tuple[AdviceRecord, ...]
    cases: tuple[CaseRecord, ...] = Field(description="similar cases; they suggest, and are no evidence for this run")
    changes: tuple[str, ...] = Field(description="against the baseline, where one was named")
    unanswered_checks: tuple[str, ...] = Field(description="what this data cannot answer; the tool checks says why")
    next_measurements: tuple[str, ...]
    notes: tuple[str, ...]
    resource: str = Field(description="URI of the whole diagnosis as JSON; with .md of its Markdown")


def open_run(call: Call, asked: OpenRunArguments) -> Reply:
    """Open and diagnose a run, alone or against a baseline, whole or some of its steps and ranks.

    Gives the diagnosis and, as `run`, the name to use in all other tools. A run that was opened before and has not
    changed is not read again.
    """
    if asked.steps is not None and asked.steps[0] > asked.steps[1]:
        asked = asked.model_copy(update={"steps": asked.steps[::-1]})
    return _diagnosed(call, call.runs.handle(asked.run, asked.baseline, asked.steps, tuple(sorted(set(asked.ranks)))))


def diagnose(call: Call, asked: OfRun) -> Reply:
    """The diagnosis of a run: verdict, ranked causes with what each costs, advice with predicted gains, open checks.

    Made by deterministic analysis, never by a model. Ids in brackets can be cited and opened: E7 is a figure, A1
    advice, C2 a case. It is made again where the files of the run have changed.
    """
    return _diagnosed(call, call.runs.handle(asked.run))


def _diagnosed(call: Call, handle: str) -> Reply:
    from hermes_agent.report.markdown import render_markdown

    with call.runs.using(handle, call.emit, call.cancelled, fresh=True) as (session, redactor):
        diagnosis = session.diagnosis
    answer, halved = shortened(
        _answer_of(handle, diagnosis), ("causes", "advice", "cases", "unanswered_checks", "notes")
    )
    if halved:
        note = f"Too long for one result: {', '.join(halved)} cut; {answer.resource} is whole."
        answer = answer.model_copy(update={"notes": (*answer.notes, note)})
    return Reply(answer, f"Run: {handle}\n\n{render_markdown(diagnosis)}", redactor)


def _answer_of(handle: str, diagnosis: Diagnosis) -> DiagnosisAnswer:
    open_checks = [each.analyzer for each in diagnosis.checks if each.status == "cannot_answer"]
    return DiagnosisAnswer(
        run=handle,
        verdict=diagnosis.verdict,
        headline=diagnosis.headline,
        step_time_ms=diagnosis.step_time_ms,
        causes=tuple(diagnosis.causes[:MOST_LISTED]),
        advice=tuple(diagnosis.advice[:MOST_LISTED]),
        cases=tuple(diagnosis.cases[:MOST_LISTED]),
        changes=tuple(diagnosis.comparison.changes[:MOST_LISTED]) if diagnosis.comparison else (),
        unanswered_checks=tuple(open_checks[:MOST_LISTED]),
        next_measurements=tuple(diagnosis.next_measurements[:MOST_LISTED]),
        notes=tuple(diagnosis.notes[:MOST_LISTED]),
        resource=f"hermes://runs/{handle}/diagnosis",
    )


class Question(OfRun):
    """A question about a run."""

    question: str = Field(min_length=1, max_length=LONGEST_QUESTION)


class AnswerRecord(Record):
    """An answer; ``evidence`` holds every figure that it cites."""

    run: str
    answered: bool = Field(description="false where the question was not understood or the run cannot answer it")
    text: str
    evidence: tuple[EvidenceRecord, ...]
    notes: tuple[str, ...]


def ask(call: Call, asked: Question) -> Reply:
    """An answer to a question in plain words, such as "which rank is slow?" or "what if both were fixed?".

    Made from measured figures by templates, never by a model. Each question stands on its own.
    """
    return _answered(call, asked.run, asked.question)


class WhyNot(OfRun):
    """A cause that was not found."""

    cause: str = Field(min_length=1, max_length=100, description="id of a cause, such as slow_network")


def why_not(call: Call, asked: WhyNot) -> Reply:
    """Why a cause is not the reason, or not the first: what was checked, what that showed, what stays open."""
    return _answered(call, asked.run, f"could it be {choice('cause', asked.cause.strip().lower(), causes())}?")


def _answered(call: Call, run: str, question: str) -> Reply:
    handle = call.runs.handle(run)
    with call.runs.using(handle, call.emit, call.cancelled) as (session, redactor):
        session.conversation = Conversation()
        asked = question if redactor is None else redactor.unmask(question)
        answer = session.ask(asked, call.emit, call.cancelled)
    record, _ = shortened(_answer_record(handle, answer), ("evidence", "text", "notes"))
    return Reply(record, "\n".join((answer.text, *answer.notes)), redactor)


def _answer_record(handle: str, answer: Answer) -> AnswerRecord:
    return AnswerRecord(
        run=handle,
        answered=answer.intent not in (NOT_UNDERSTOOD, NOT_MEASURABLE),
        text=answer.text,
        evidence=answer.evidence,
        notes=answer.notes,
    )


class Fix(OfRun):
    """A change that was made, and the run recorded after it."""

    advice: str = Field(max_length=20, pattern=r"^\[?[Aa]\d+\]?$", description="the advice followed, such as A1")
    after: RunName


class Confirmed(Record):
    """What a change brought: measured against predicted. ``inside``: the gain lies in the predicted 80 % range."""

    run: str
    after: str
    outcome: Literal["confirmed", "faster", "slower", "no_change"]
    cause: str
    cause_gone: bool
    before_ms: float
    after_ms: float
    measured_speedup: float
    predicted_speedup: float | None
    interval: tuple[float, float] | None
    inside: bool | None
    noise_pct: float
    text: tuple[str, ...]


def confirm(call: Call, asked: Fix) -> Reply:
    """Verify a fix: the gain of following an advice, measured on the run recorded after the change, against predicted.

    Refused with the reasons where the two runs are not comparable.
    """
    handles = call.runs.handle(asked.run), call.runs.handle(asked.after)
    with ExitStack() as held:
        opened = {  # always in the same order, or two calls could wait for each other
            handle: held.enter_context(call.runs.using(handle, call.emit, call.cancelled))
            for handle in sorted({*handles})
        }
        sides = []
        for handle in handles:
            session = opened[handle][0]
            profile = session.profile(call.emit, call.cancelled)
            sides.append(RunOf(session.diagnosis, profile, session.request.paths[0]))
        found = confirmation(sides[0], sides[1], asked.advice)
    record = Confirmed(
        run=handles[0],
        after=handles[1],
        outcome=found.outcome,
        cause=found.cause.cause,
        cause_gone=found.gone,
        before_ms=found.before_ms,
        after_ms=found.after_ms,
        measured_speedup=found.measured,
        predicted_speedup=found.predicted,
        interval=found.interval,
        inside=found.inside,
        noise_pct=found.noise_pct,
        text=found.sentences,
    )
    return Reply(record, "\n".join(found.sentences), opened[handles[0]][1])


class Lines(OfRun):
    """Lines of an earlier result."""

    handle: str = Field(max_length=20, description="for example R3")
    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=60, ge=1, le=200)
    contains: str = Field(default="", max_length=200, description="keep only lines with this text")


class Text(Record):
    """Lines of a result."""

    run: str
    text: str


def read_result(call: Call, asked: Lines) -> Reply:
    """Read on in an earlier result of a tool by its handle: lines from `offset`, all or those that contain a text."""
    handle = call.runs.handle(asked.run)
    with call.runs.using(handle, call.emit, call.cancelled) as (session, redactor):
        text = session.discussion.results.reader().call(unmasked(asked.model_dump(exclude={"run"}), redactor))
    record, _ = shortened(Text(run=handle, text=text), ("text",))
    return Reply(record, record.text, redactor)


DIAGNOSIS_TOOLS = (
    server_tool(list_runs, Paged, Runs),
    server_tool(open_run, OpenRunArguments, DiagnosisAnswer),
    server_tool(diagnose, OfRun, DiagnosisAnswer),
    server_tool(ask, Question, AnswerRecord),
    server_tool(why_not, WhyNot, AnswerRecord),
    server_tool(confirm, Fix, Confirmed),
    server_tool(read_result, Lines, Text),
)
