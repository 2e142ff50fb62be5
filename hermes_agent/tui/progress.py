"""How far a diagnosis has come: a frozen record that each event advances, and that the side panel draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import (
    CauseRanked,
    CheckFinished,
    DiagnosisReady,
    Event,
    Stage,
    StageFinished,
    StageProgress,
    StageStarted,
)

StageState = Literal["waiting", "running", "done"]
STAGES = tuple(Stage)


@dataclass(frozen=True)
class CheckLine:
    """One question and what it came to."""

    stage: Stage
    name: str  # "io.data_loader"
    status: Literal["found", "clean", "cannot_answer"]


@dataclass(frozen=True)
class CauseLine:
    """One ranked cause."""

    cause: str
    mechanism: str | None
    impact_ms: float
    impact_pct: float
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Progress:
    """The hierarchy as it is worked through; ``stored`` says that the diagnosis was made before."""

    running: Stage | None = None
    detail: str = ""
    finished: tuple[tuple[Stage, str], ...] = ()  # with the line each stage ended with
    checks: tuple[CheckLine, ...] = ()
    causes: tuple[CauseLine, ...] = ()
    stored: bool = False
    over: bool = False

    def state(self, stage: Stage) -> StageState:
        """Where a stage stands."""
        if self.running is stage:
            return "running"
        return "done" if any(stage is each for each, _ in self.finished) else "waiting"

    def note(self, stage: Stage) -> str:
        """What a finished stage came to."""
        return next((note for each, note in self.finished if each is stage), "")


def advance(progress: Progress, event: Event) -> Progress:
    """The progress after one more event."""
    match event:
        case StageStarted(stage):
            return replace(progress, running=stage, detail="")
        case StageProgress(stage, done, total, detail):
            counted = f"{done}/{total} {detail}" if total else detail
            return replace(progress, running=stage, detail=counted.strip())
        case StageFinished(stage, _, note):
            finished = (*(pair for pair in progress.finished if pair[0] is not stage), (stage, note))
            return replace(progress, running=None, detail="", finished=finished)
        case CheckFinished(check=name, status=status):
            stage = progress.running or _next_stage(progress)
            return replace(progress, running=stage, checks=(*progress.checks, CheckLine(stage, name, status)))
        case CauseRanked(cause=cause, mechanism=mechanism, impact_ms=ms, impact_pct=pct, ranks=ranks):
            return replace(progress, causes=(*progress.causes, CauseLine(cause, mechanism, ms, pct, ranks)))
        case DiagnosisReady(diagnosis, _, cached):
            return ended(progress, diagnosis, stored=cached)
        case _:
            return progress


def ended(progress: Progress, diagnosis: Diagnosis, *, stored: bool) -> Progress:
    """The last record: causes as the diagnosis ranks them, and its checks where no event told of them."""
    told = progress.checks or tuple(
        CheckLine(Stage.FAMILIES, check.analyzer, check.status) for check in diagnosis.checks
    )
    causes = tuple(
        CauseLine(each.cause, each.mechanism, each.impact_ms_per_step, each.impact_pct, tuple(each.ranks))
        for each in diagnosis.causes
    )
    finished = progress.finished or tuple((stage, "") for stage in STAGES)
    return Progress(finished=finished, checks=told, causes=causes, stored=stored, over=True)


def _next_stage(progress: Progress) -> Stage:
    """The family branches report before their joint stage says that it began."""
    done = {stage for stage, _ in progress.finished}
    return next((stage for stage in STAGES if stage not in done), STAGES[-1])
