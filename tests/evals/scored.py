"""Outcomes made up for the scorers: a case, and a diagnosis that names what a test wants named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evals.suite.case_schema import Case
from evals.suite.outcome import CaseResult, Outcome
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis
from tools.knowledge.taxonomy import family_of

Named = tuple[str, float, float]  # cause, confidence, impact in % of the step


def case(kind: str = "cause", **fields: Any) -> Case:  # noqa: ANN401 (fields of any record)
    expected = fields.pop("expected", {"verdict": ["problem"]})
    tags = {"source": "synthetic", "kind": kind}
    return Case.model_validate(
        {"id": "made-up", "what": "", "run": {"synthetic": {}}, "expected": expected, "tags": tags, **fields}
    )


def diagnosis(verdict: str, *named: Named, ranks: Sequence[int] = (0,), **fields: Any) -> Diagnosis:  # noqa: ANN401
    causes = [
        CauseRecord(
            cause=cause, family=family_of(cause), mechanism=None, confidence=confidence, impact_ms_per_step=1.0,
            impact_pct=impact, method="", ranks=list(ranks), steps=[], claim="", evidence=[], evidence_against=[],
            disproved_by="",
        )
        for cause, confidence, impact in named
    ]  # fmt: skip
    record: dict[str, Any] = {
        "run": {"sources": [], "ranks": [0, 1], "steps": [0], "step_origin": "", "devices": [], "layout": {}},
        "verdict": verdict,
        "headline": "",
        "step_time_ms": {"median": 100.0, "p95": 100.0, "mean": 100.0, "steps": 1},
        "breakdown": [], "causes": [], "advice": [], "checks": [], "evidence": [], "cases": [], **fields,
    }  # fmt: skip
    return Diagnosis.model_validate(record).model_copy(update={"causes": causes})


def outcome(of: Case, found: Diagnosis | None, **fields: Any) -> Outcome:  # noqa: ANN401
    return Outcome(of, found, **fields)


def result(name: str = "made-up", misses: Sequence[str] = (), status: str = "scored", **fields: Any) -> CaseResult:  # noqa: ANN401
    tags = fields.pop("tags", {"source": "synthetic", "kind": "cause"})
    return CaseResult.model_validate({"id": name, "tags": tags, "status": status, "misses": list(misses), **fields})
