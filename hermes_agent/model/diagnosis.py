"""The Diagnosis: the versioned JSON contract that every frontend, evaluation and other program reads."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from hermes_agent.model.record import Record
from hermes_agent.model.run_record import RunRecord, SourceRecord
from tools.whatif.claim import COVERS_PCT

SCHEMA = "hermes-dx/diagnosis/1"
NOT_LOOKED_UP = "No similar cases could be looked up"  # how ``recall_note`` begins where the case library failed
Verdict = Literal["problem", "healthy", "inconclusive"]
HypothesisStatus = Literal["open", "supported", "refuted", "untestable"]
Scalar = str | int | float | None


class UnprofiledStepTime(Record):
    """Step time over the steps that no profiler touched, of the slowest rank, by monitor records or step logs."""

    median: float
    p95: float
    mean: float
    steps: int
    source: str  # "hermes-dx monitor" or "step log"
    evidence: list[str] = Field(default_factory=list)


class StepGroupRecord(Record):
    """A group of traced steps of about the same length; ``cost_ms_per_step``: its excess times its frequency."""

    steps: list[int]
    which: str
    median: float
    cost_ms_per_step: float
    evidence: list[str] = Field(default_factory=list)


class StepTime(Record):
    """Step time over the traced steps, the slowest rank of each; ``unprofiled`` over the others, where known.

    ``groups``, shortest first, where the traced steps fall into groups.
    """

    median: float
    p95: float
    mean: float
    steps: int
    evidence: list[str] = Field(default_factory=list)
    unprofiled: UnprofiledStepTime | None = None
    groups: list[StepGroupRecord] = Field(default_factory=list)


class BreakdownRow(Record):
    """The parts of a rank's step; ``step`` is null for the mean over steps. The exposed parts add up to ``wall_ms``."""

    rank: int
    step: int | None
    wall_ms: float
    compute_ms: float
    exposed_communication_ms: float
    overlapped_communication_ms: float
    exposed_memcpy_ms: float
    data_wait_ms: float
    host_ms: float
    idle_ms: float


class AttributionRow(Record):
    """A rank's mean step by the TensorBoard plugin's priorities, for comparison with its figures."""

    rank: int
    step_ms: float
    roles_ms: dict[str, float]  # kernel, memcpy, memset, communication, runtime, data_loader, operator, other


class KernelClassRow(Record):
    """Time that kernels of one class run per step of a rank; kernels that overlap are added up."""

    rank: int
    kernel_class: str
    ms_per_step: float
    launches_per_step: float


class CauseRecord(Record):
    """One ranked cause.

    ``title`` is its heading. ``impact_ms_per_step`` is what the step would lose if it were gone, after the causes that
    it shares time with; with ``at_most`` that is the most that it can be, and how much less is not known.
    ``then_ms_per_step`` is what it saves after those fixes: more where the causes at the places ``masked_by`` (from 1)
    mask it. Causes at the places ``shared_with`` would alone save some of the same time, which is counted once.
    ``where`` names ranks, steps and calls when they are not all of them. ``stands_for``: the ranks (spans, both ends)
    that look like ``ranks``, with these; empty where it is only these.
    """

    cause: str
    title: str = ""
    family: str
    mechanism: str | None
    confidence: float
    impact_ms_per_step: float
    impact_pct: float
    then_ms_per_step: float = 0.0
    masked_by: list[int] = Field(default_factory=list)
    shared_with: list[int] = Field(default_factory=list)
    method: str
    at_most: bool = False
    ranks: list[int]
    stands_for: list[tuple[int, int]] = Field(default_factory=list)
    steps: list[int]
    claim: str
    details: list[str] = Field(default_factory=list)
    evidence: list[str]
    evidence_against: list[str]
    against: list[str] = Field(default_factory=list)
    disproved_by: str
    signals: list[str] = Field(default_factory=list)
    symptoms: list[str] = Field(default_factory=list)
    check: str = ""
    where: str = ""


class AdviceRecord(Record):
    """One change to make, with what it would bring.

    With ``same_samples`` the predicted step is the time for as many samples as a step has now: the step may grow.
    With ``at_most`` the predicted gain is the most that the change can bring, and there is no interval around it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    id: str
    for_: str = Field(alias="for")
    mechanism: str | None = None
    optimization: str
    how: str
    effort: int
    risk: str
    verify: str
    predicted_step_ms: float | None
    predicted_speedup: float | None
    interval: tuple[float, float] | None
    at_most: bool = False
    same_samples: bool = False
    text: str = ""
    setting: str | None = None
    evidence: list[str] = Field(default_factory=list)
    cases: list[str] = Field(default_factory=list)


class PlaceRecord(Record):
    """Where a lead's time goes; ``between`` are the operators around it, ``steps`` says which of the recorded ones."""

    part: str
    ranks: list[int]
    steps: str
    between: tuple[str, str] | None = None
    frame: str = ""
    group: str | None = None


class CandidateRecord(Record):
    """A cause that would look like a lead, and how likely it is."""

    cause: str
    likelihood: float
    why: str
    mechanism: str | None = None


class LeadRecord(Record):
    """What is localised but not explained: place, size (0: not known), likely causes, and what decides."""

    id: str
    place: PlaceRecord
    impact_ms_per_step: float
    impact_pct: float
    claim: str
    candidates: list[CandidateRecord]
    decide_by: str
    evidence: list[str]


class HypothesisRecord(Record):
    """A cause that was considered for a part of the step, and what testing it gave.

    ``place`` is the id of the lead it would explain, or "" where it was proposed for the run as a whole. ``judged_by``
    is one line about the test that decided; ``next_test`` what would decide while it is open or untestable.
    """

    id: str  # "H1"
    cause: str
    mechanism: str | None = None
    ranks: list[int] = Field(default_factory=list)
    place: str = ""
    status: HypothesisStatus
    evidence: list[str] = Field(default_factory=list)
    evidence_against: list[str] = Field(default_factory=list)
    judged_by: str = ""
    next_test: str = ""
    proposed_by: Literal["analyzers", "model"] = "analyzers"


class WantedSourceRecord(Record):
    """A missing source that would decide between hypotheses, of which ranks (none: of the run), and what it decides."""

    source: str
    ranks: list[int] = Field(default_factory=list)
    decides: str


class RouteRecord(Record):
    """A deep look at a part of the step: taken or not, why, and what it showed.

    ``share_pct``: of the step, or of its critical path where that is more.
    """

    look: str
    part: str
    rank: int
    share_pct: float
    taken: bool
    reason: str
    text: str = ""
    evidence: list[str] = Field(default_factory=list)


class CheckRecord(Record):
    """The outcome of one check."""

    analyzer: str
    status: Literal["found", "clean", "cannot_answer"]
    reason: str = ""
    needs: str = ""
    text: list[str] = Field(default_factory=list)


class RecordNextRecord(Record):
    """A recording that would answer checks that cannot answer: ``do`` the command, ``shows`` what it adds."""

    recording: str
    do: str
    shows: str
    checks: list[str] = Field(default_factory=list)


class SourceSelector(Record):
    """The file and selector of a figure."""

    path: str
    selector: str


class EvidenceRecord(Record):
    """One figure, and the call that gives it again."""

    id: str
    metric: str
    arguments: dict[str, Scalar]
    value: float
    unit: str
    ranks: list[int]
    steps: list[int]
    window_ns: tuple[int, int] | None
    source: SourceSelector
    run: Literal["run", "baseline"] = "run"


class CaseRecord(Record):
    """A similar case, which is never evidence for this run; a team's own is ``private`` and lies in ``file``."""

    id: str
    case: str
    title: str
    url: str
    similarity: float
    shared_signals: list[str]
    cause: str
    why: str
    private: bool = False
    file: str = ""


class ComparisonRecord(Record):
    """Changes against a baseline run."""

    baseline: list[SourceRecord]
    headline: str
    changes: list[str]


class Diagnosis(Record):
    """The whole answer."""

    schema_: str = Field(default=SCHEMA, alias="schema")
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    run: RunRecord
    verdict: Verdict
    headline: str
    step_time_ms: StepTime | None  # null where every trace is cut and no records hold steps
    breakdown: list[BreakdownRow]
    plugin_attribution: list[AttributionRow] = Field(default_factory=list)
    kernel_classes: list[KernelClassRow] = Field(default_factory=list)
    causes: list[CauseRecord]
    advice: list[AdviceRecord]
    leads: list[LeadRecord] = Field(default_factory=list)
    hypotheses: list[HypothesisRecord] = Field(default_factory=list)
    routes: list[RouteRecord] = Field(default_factory=list)
    source_wanted: WantedSourceRecord | None = None
    interval_covers_pct: float = COVERS_PCT  # in so many cases an interval of the advice claims to hold the truth
    checks: list[CheckRecord]
    evidence: list[EvidenceRecord]
    cases: list[CaseRecord]
    recall_note: str = ""
    comparison: ComparisonRecord | None = None
    next_measurements: list[str] = Field(default_factory=list)
    record_next: list[RecordNextRecord] = Field(
        default_factory=list, description="the fewest recordings that answer most open checks, three at most"
    )
    answer: list[str] = Field(default_factory=list)
    answer_by: Literal["template", "model"] = "template"
    answer_model: str = ""  # which model wrote the answer
    notes: list[str] = Field(default_factory=list)
