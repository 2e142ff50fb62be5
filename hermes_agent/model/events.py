"""The one typed event stream: the workflow speaks in these, every frontend is a renderer of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis, HypothesisRecord
    from hermes_agent.model.turn import ToolCallRecord


class Stage(StrEnum):
    """The steps of the hierarchy, in order."""

    LOAD = "load"
    COARSE = "coarse"
    INTER_OPERATOR = "inter_operator"
    FAMILIES = "families"
    EXPLAIN = "explain"
    RECALL = "recall"
    PREDICT = "predict"
    WRITE = "write"


@dataclass(frozen=True)
class StageStarted:
    """A stage begins."""

    stage: Stage


@dataclass(frozen=True)
class StageFinished:
    """A stage ended; ``note`` is one line for people."""

    stage: Stage
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class StageProgress:
    """Progress of a stage."""

    stage: Stage
    done: int
    total: int
    detail: str = ""


@dataclass(frozen=True)
class CheckFinished:
    """One question was looked at."""

    analyzer: str
    family: str
    check: str
    status: Literal["found", "clean", "cannot_answer"]
    text: str = ""


@dataclass(frozen=True)
class CauseRanked:
    """One cause took its place."""

    place: int
    cause: str
    mechanism: str | None
    family: str
    impact_ms: float
    impact_pct: float
    confidence: float
    ranks: tuple[int, ...]
    at_most: bool = False  # the impact is the most that it can be


@dataclass(frozen=True)
class HypothesisJudged:
    """A hypothesis was proposed or its status changed; the record is whole each time."""

    hypothesis: HypothesisRecord


@dataclass(frozen=True)
class ToolCalled:
    """A tool was called, by the investigation, for an answer or by a model; one line of a frontend."""

    call: ToolCallRecord


@dataclass(frozen=True)
class SourceWanted:
    """The diagnosis waits for a person: which source would decide between competing hypotheses.

    ``source``: what to attach ("monitor records", "a trace of rank 1"); ``ranks``: of which ranks; ``decides``: what it
    would settle, one line. The answer is one or more paths, or none to go on without it.
    """

    question: str
    source: str
    ranks: tuple[int, ...]
    decides: str


@dataclass(frozen=True)
class Notice:
    """Something a person should know: an assumption, an exclusion, a fallback."""

    text: str


@dataclass(frozen=True)
class NotStored:
    """The diagnosis could not be stored; ``text`` says where, why and what follows."""

    text: str


@dataclass(frozen=True)
class AnswerDelta:
    """A paragraph of the model's answer that passed the checks."""

    text: str


@dataclass(frozen=True)
class AnswerRejected:
    """The model's answer did not pass the checks; the answer from templates takes its place."""

    reason: str


@dataclass(frozen=True)
class DiagnosisReady:
    """The whole diagnosis from templates. ``seconds`` is the time it took, ``cached`` whether it was stored before."""

    diagnosis: Diagnosis
    seconds: float
    cached: bool = False


@dataclass(frozen=True)
class DiagnosisWorded:
    """After ``DiagnosisReady``: the same diagnosis with what a model said of it, as far as it passed the checks."""

    diagnosis: Diagnosis


Event: TypeAlias = (
    StageStarted
    | StageFinished
    | StageProgress
    | CheckFinished
    | CauseRanked
    | HypothesisJudged
    | ToolCalled
    | SourceWanted
    | Notice
    | NotStored
    | AnswerDelta
    | AnswerRejected
    | DiagnosisReady
    | DiagnosisWorded
)
Emit: TypeAlias = Callable[[Event], None]


def ignore(_: Event) -> None:
    """A listener that drops every event."""
