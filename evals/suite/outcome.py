"""The outcome of one case: the diagnosis next to its case, and the saved record of its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from evals.suite.case_schema import Case, Measured, Tags
from evals.suite.observations import Observation
from evals.synthetic.spec import Record
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis
from hermes_agent.session import Answer

Refusal = Literal["not_comparable", "unreadable"]
Standing = Literal["right", "lead", "no_lead", "cannot_answer", "wrong"]  # the answer to a labelled run in one word
ASSERTED_PCT, ASSERTED_CONFIDENCE = 5.0, 0.5  # a cause above both is asserted, not merely noted


@dataclass(frozen=True)
class Outcome:
    """One case carried out. ``refused`` is the error that Hermes gave instead of a diagnosis, if any."""

    case: Case
    diagnosis: Diagnosis | None
    answer: Answer | None = None
    refused: str = ""
    refusal: Refusal | None = None
    measured: Measured | None = None
    present: frozenset[Observation] = frozenset()  # what the run holds; asked only where there are leads

    @property
    def ranked(self) -> list[CauseRecord]:
        """The causes in order, none when there is no diagnosis."""
        return [] if self.diagnosis is None else self.diagnosis.causes

    @property
    def verdict(self) -> str:
        """The verdict; empty when there is no diagnosis."""
        return "" if self.diagnosis is None else self.diagnosis.verdict

    @property
    def asserted(self) -> list[CauseRecord]:
        """The causes that the answer asserts."""
        if self.verdict != "problem":
            return []
        return [c for c in self.ranked if c.impact_pct >= ASSERTED_PCT and c.confidence >= ASSERTED_CONFIDENCE]


class NamedCause(Record):
    """One cause that was named."""

    cause: str
    mechanism: str | None
    confidence: float
    impact_pct: float
    ranks: list[int]


class Gain(Record):
    """Predicted against measured speedup of fixing the right cause, and the error in % of the step."""

    predicted: float
    low: float
    high: float
    measured: float
    error_pct: float
    covered: bool  # the interval holds the measured speedup
    meets: bool | None = None  # the interval and that of the measurement share some value
    signed_pct: float | None = None  # the predicted saving less the measured one, in % of the step


class SharedSaving(Record):
    """What several causes promise together, in % of the step, and what fixing all of them saved."""

    promised_pct: float  # by the expected causes
    listed_pct: float  # by all causes of the answer
    measured_pct: float
    most_pct: float  # upper end of the measured saving


class ModelUse(Record):
    """Use of a model for this case, over all attempts. An attempt passes when its answer has no miss."""

    answer_by: Literal["template", "model"]  # of the first attempt
    calls: int
    tokens: int
    seconds: float
    cost: float | None = None
    attempts: int = 1
    passes: int = 0


class CaseResult(Record):
    """Scores of one case. A score is absent where the case does not ask for it."""

    id: str
    tags: Tags
    status: Literal["scored", "skipped", "failed"]
    reason: str = ""  # why it was skipped or failed
    verdict: str = ""  # or "refused"
    standing: Standing | None = None
    expected: list[str] = Field(default_factory=list)
    named: list[NamedCause] = Field(default_factory=list)
    scores: dict[str, float] = Field(default_factory=dict)
    misses: list[str] = Field(default_factory=list)
    gain: Gain | None = None
    shared: SharedSaving | None = None
    measured_saving_pct: float | None = None  # of a pair with one cause: what fixing saved, in % of the step
    model: ModelUse | None = None
    seconds: float = 0.0
