"""A session that answers from a hand-made diagnosis, so that screens can be tested without reading a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag

from hermes_agent.evidence.session_ids import CitedRecord
from hermes_agent.locations.places import Place
from hermes_agent.model.diagnosis import (
    AdviceRecord,
    BreakdownRow,
    CaseRecord,
    CauseRecord,
    CheckRecord,
    Diagnosis,
    EvidenceRecord,
    HypothesisRecord,
    SourceSelector,
    StepTime,
)
from hermes_agent.model.events import (
    CauseRanked,
    CheckFinished,
    DiagnosisReady,
    Emit,
    Event,
    Stage,
    StageFinished,
    StageProgress,
    StageStarted,
    ToolCalled,
)
from hermes_agent.model.request import Request
from hermes_agent.model.run_record import RunRecord, SourceRecord
from hermes_agent.model.turn import ToolCallRecord, Turn
from hermes_agent.questions.reading.conversation import turn_of
from hermes_agent.session import Answer, Shown, Table
from hermes_agent.tui.work import Cancelled, ChatSession, Openings
from hermes_agent.workflow.way import Kept
from tools.agent_tools.result import CitedFigure, Result
from tools.errors import InputError, UsageError
from tools.views.profile import Profile

HOSTILE = "[bold red]x[/] \x1b[31mred"
WAIT_S = 30.0  # how long a test waits for something to happen before it has failed


def row(rank: int, step: int | None, compute: float, wait: float) -> BreakdownRow:
    """A row whose parts add up: 5 ms of the program and 1 ms of exposed communication beside compute and waiting."""
    parts = {"compute_ms": compute, "data_wait_ms": wait, "host_ms": 5.0, "exposed_communication_ms": 1.0}
    rest = {"exposed_memcpy_ms": 0.0, "idle_ms": 0.0, "overlapped_communication_ms": 2.0}
    return BreakdownRow(rank=rank, step=step, wall_ms=sum(parts.values()), **parts, **rest)


def evidence(identifier: str, metric: str, value: float, unit: str) -> EvidenceRecord:
    """A figure on step 3 of both ranks."""
    return EvidenceRecord(
        id=identifier,
        metric=metric,
        arguments={"statistic": "median"},
        value=value,
        unit=unit,
        ranks=[0, 1],
        steps=[3],
        window_ns=(0, 1_000_000),
        source=SourceSelector(path="run/rank0.json", selector="step spans"),
    )


def diagnosis() -> Diagnosis:
    """A slow loader on rank 1, with one advice, one case and a check of every outcome."""
    means = [row(0, None, 94.0, 0.0), row(1, None, 34.0, 60.0)]
    each = [row(rank, step, 94.0 - 60 * rank, 60.0 * rank) for step in (3, 4, 5) for rank in (0, 1)]
    return Diagnosis(
        run=RunRecord(
            sources=[SourceRecord(path="run/rank0.json", format="kineto", ranks=[0], status="complete")],
            ranks=[0, 1],
            steps=[3, 4, 5],
            step_origin="profiler steps",
            devices=[],
            layout={"world_size": 2},
        ),
        verdict="problem",
        headline="The first cause is slow data processing on rank 1: it costs 60 ms [E2] of a step of 100 ms [E1].",
        answer=[
            "The first cause is slow data processing on rank 1: it costs 60 ms [E2] of a step of 100 ms [E1].",
            "Of the step, computation 64 % [E3], waiting for data 30 % [E4].",
        ],
        step_time_ms=StepTime(median=100.0, p95=104.0, mean=100.5, steps=3, evidence=["E1"]),
        breakdown=[*means, *each],
        causes=[_cause()],
        advice=[_advice()],
        checks=[
            CheckRecord(analyzer="parallel.step_time", status="clean", text=["Steps are steady [E1]."]),
            CheckRecord(analyzer="io.data_loader", status="found", text=["Rank 1 waits for data [E2]."]),
            CheckRecord(
                analyzer="communication.transfer",
                status="cannot_answer",
                reason="no sizes were recorded",
                needs="record_shapes=True",
            ),
        ],
        evidence=[
            evidence("E1", "step_time_ms", 100.0, "ms"),
            evidence("E2", "cause_impact_ms", 60.0, "ms"),
            evidence("E3", "part_pct", 64.0, "%"),
            evidence("E4", "part_pct", 30.0, "%"),
        ],
        cases=[
            CaseRecord(
                id="C1",
                case="loader-zero-workers",
                title="One process loads while the device waits",
                url="https://example.org/case",
                similarity=0.72,
                shared_signals=["single-process loader"],
                cause="slow_data_processing",
                why="the same cause and signals",
            )
        ],
        notes=[f"one span is called {HOSTILE}"],
    )


def _cause() -> CauseRecord:
    return CauseRecord(
        cause="slow_data_processing",
        family="io",
        mechanism="too_few_workers",
        confidence=0.9,
        impact_ms_per_step=60.0,
        impact_pct=60.0,
        method="replay",
        ranks=[1],
        steps=[3, 4, 5],
        claim="Rank 1 waits 60 ms [E2] in `enumerate(DataLoader)#[bold]` in each step.",
        evidence=["E2", "E4"],
        evidence_against=[],
        disproved_by="more workers leave the wait as it is",
    )


def _advice() -> AdviceRecord:
    return AdviceRecord(
        id="A1",
        for_="slow_data_processing",
        mechanism="too_few_workers",
        optimization="more workers",
        how="DataLoader(num_workers=4)",
        effort=1,
        risk="more memory",
        verify="record again",
        predicted_step_ms=45.0,
        predicted_speedup=2.2,
        interval=(1.8, 2.4),
        text="With it gone a step would take 100 ms [E1] less 60 ms [E2].",
        evidence=["E1", "E2"],
        cases=["C1"],
    )


def critical_path() -> Result:
    """The result of the tool of that name."""

    def figure(name: str, metric: str, value: float, family: str = "") -> CitedFigure:
        arguments: dict[str, str | int | float | None] = {"family": family} if family else {}
        return CitedFigure(id=name, label=metric, metric=metric, arguments=arguments, value=value, unit="ms")

    return Result(
        facts=(
            figure("E1", "critical_path_step_ms", 100.0),
            figure("E2", "critical_path_ms", 60.0, "io"),
            figure("E3", "family_saving_ms", 55.0, "io"),
            figure("E4", "critical_path_ms", 40.0, "idle"),
        )
    )


def hypotheses() -> list[HypothesisRecord]:
    """One that held, one that did not, one that is open."""
    return [
        HypothesisRecord(
            id="H1",
            cause="slow_data_processing",
            mechanism="too_few_workers",
            ranks=[1],
            status="supported",
            evidence=["E2"],
            judged_by="Waiting for data is 60 ms of the step of rank 1",
        ),
        HypothesisRecord(id="H2", cause="garbage_collection", status="refuted", evidence_against=["E4"]),
        HypothesisRecord(id="H3", cause="slow_link", status="open", next_test="NCCL logs of rank 0"),
    ]


def first_half() -> list[Event]:
    """The events up to the middle of the family checks."""
    return [
        StageStarted(Stage.LOAD),
        StageProgress(Stage.LOAD, 2, 2, "read rank1.json"),
        StageFinished(Stage.LOAD, 0.1, "2 rank(s), 3 step(s)"),
        StageStarted(Stage.COARSE),
        CheckFinished("step_time", "parallel", "parallel.step_time", "clean"),
        StageFinished(Stage.COARSE, 0.1, "0 found, 1 clean"),
        StageStarted(Stage.INTER_OPERATOR),
        StageFinished(Stage.INTER_OPERATOR, 0.1),
        CheckFinished("io", "io", "io.data_loader", "found", f"waits in {HOSTILE}"),
        CheckFinished("communication", "communication", "communication.transfer", "cannot_answer"),
    ]


def second_half() -> list[Event]:
    """The events after that, up to the end."""
    rest = (Stage.EXPLAIN, Stage.RECALL, Stage.PREDICT, Stage.WRITE)
    stages = [event for stage in rest for event in (StageStarted(stage), StageFinished(stage, 0.1))]
    ranked = CauseRanked(1, "slow_data_processing", "too_few_workers", "io", 60.0, 60.0, 0.9, (1,))
    return [StageStarted(Stage.FAMILIES), StageFinished(Stage.FAMILIES, 0.1), ranked, *stages]


@dataclass
class FakeSession:
    """Plays the events of a diagnosis. With ``hold`` it stops half way until ``go`` is set or it is interrupted."""

    hold: bool = False
    cached: bool = False
    streams: tuple[Event, ...] = ()  # while a question is answered
    by_model: bool = False
    asked: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    agrees: bool = True
    closed: bool = False
    go: Flag = field(default_factory=Flag)
    half_way: Flag = field(default_factory=Flag)
    attached: tuple[Path, ...] = ()
    turns: tuple[Turn, ...] = ()
    skipped: bool = False
    kept: Kept | None = None
    cited: tuple[CitedRecord, ...] = ()
    results: Mapping[str, str] = field(default_factory=dict)
    request: Request = field(default_factory=lambda: Request(paths=(Path("run"),)))

    def diagnose(self, emit: Emit, cancelled: Cancelled) -> Diagnosis:
        """The hand-made diagnosis, with its events."""
        made = diagnosis()
        for event in [] if self.cached else first_half():
            emit(event)
        self.half_way.set()
        self._wait(emit)
        for event in [] if self.cached else second_half():
            emit(event)
        if self.by_model:
            made = made.model_copy(update={"answer_by": "model", "answer_model": "small-model"})
        emit(DiagnosisReady(made, 1.5, self.cached))
        return made

    def ask(self, question: str, emit: Emit, cancelled: Callable[[], bool]) -> Answer:
        """An answer with a table, a citation and a name that looks like markup."""
        self.asked.append(question)
        for event in self.streams:
            emit(event)
        if self.hold:
            self.half_way.set()
            while not self.go.wait(0.01) and not cancelled():
                pass
        text = (
            f"Rank 1 loses **60 ms** [E2] to `{HOSTILE}`, see [C1].\n\n| part | ms |\n|---|---|\n| data | 60 [E2] |\n"
        )
        answer = Answer(text, tuple(diagnosis().evidence[1:2]), notes=("answered from templates",))
        self.turns = (*self.turns, turn_of(question, answer, []))
        return answer

    def go_on(
        self, turns: tuple[Turn, ...], records: tuple[CitedRecord, ...] = (), results: Mapping[str, str] | None = None
    ) -> None:
        """Notes the turns before."""
        self.turns = turns

    def skip(self) -> None:
        """Notes that nothing is attached."""
        self.skipped = True

    def attach(self, paths: tuple[Path, ...], emit: Emit, cancelled: Cancelled) -> Diagnosis:
        """The same diagnosis with one source more."""
        self.attached += paths
        emit(DiagnosisReady(diagnosis(), 0.5))
        return diagnosis()

    def show(self, identifier: str) -> Shown:
        """The figure measured again, with rows that hold hostile names."""
        self.shown.append(identifier)
        if identifier.upper() not in ("E1", "E2", "E3", "E4", "C1", "A1"):
            raise UsageError(f"there is nothing called {identifier!r} in this diagnosis; there is evidence E1 to E4")
        known = {each.id: each for each in diagnosis().evidence}
        figure = known.get(identifier.upper())
        if figure is None:
            return Shown(identifier, f"{identifier} as the library has it", ("Cause there: slow data processing",))
        table = Table(("name", "duration_ms"), ((HOSTILE, "60.0"), ("aten::mm", "3.5")), 40)
        lines = (f"Stored: {figure.value} {figure.unit}", f"Rows: spans named {HOSTILE}")
        title = f"{figure.id} {figure.metric}: {figure.value} {figure.unit}"
        return Shown(identifier, title, lines, table, figure.value, agrees=self.agrees)

    def call(self, name: str, arguments: Mapping[str, object], emit: Emit, cancelled: Callable[[], bool]) -> Result:
        """The critical path as a tool gives it; every other tool fails."""
        failed = "" if name == "critical_path" else f"there is no tool {name!r}"
        record = ToolCallRecord(handle="R1", name=name, seconds=0.2, size=300, error=failed)
        emit(ToolCalled(record))
        if failed:
            raise UsageError(failed)
        return critical_path()

    def profile(self, emit: Emit, cancelled: Callable[[], bool]) -> Profile:
        """There is no run behind the hand-made diagnosis."""
        raise InputError("run/rank0.json: the file is gone; check the path.")

    def result(self, handle: str) -> str:
        """The text of the only result."""
        if handle != "R1":
            raise UsageError(f"there is no tool result {handle!r}; the results are R1 to R1")
        return f"whole path per step: 100 ms, with {HOSTILE}"

    def close(self) -> None:
        """Notes that it was closed."""
        self.closed = True

    def _wait(self, emit: Emit) -> None:
        if not self.hold:
            return
        while not self.go.wait(0.01):
            emit(StageProgress(Stage.FAMILIES, 2, 4, "io"))  # raises where it is interrupted


def openings(session: FakeSession, *, given: bool = True, model: str | None = None) -> Openings:
    """Ways that all lead to the same session; a path that does not exist raises as the reader does."""

    def path(paths: tuple[Place, ...]) -> ChatSession:
        if isinstance(paths[0], Path) and not paths[0].exists():
            raise InputError(f"{paths[0]}: there is no such file or folder; check the path.")
        return session

    return Openings(path, lambda: session, (lambda: session) if given else None, "run" if given else "", model)
