"""Results of a suite in groups. Sources are never pooled: a synthetic score says nothing of real runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from evals.outcome import CaseResult
from evals.statistics import Bin, Gains, Mean, calibration, confusion, gains, means

SCHEMA: Literal["hermes-dx/eval/1"] = "hermes-dx/eval/1"
SOURCES = ("real", "lab", "synthetic")
DIMENSIONS = ("split", "kind", "family", "difficulty")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Group(_Record):
    """The scored cases of one source, all of them or those with one value of a tag."""

    source: str
    dimension: str = ""
    value: str = ""
    cases: int
    right: int  # cases without a miss
    scores: dict[str, Mean]


class SourceDetails(_Record):
    """What is told of one source as a whole."""

    source: str
    curve: list[Bin]
    calibration_error: float | None
    confusion: dict[str, dict[str, int]]
    gains: Gains | None


class Results(_Record):
    """One saved run of the suite."""

    schema_: Literal["hermes-dx/eval/1"] = Field(default=SCHEMA, alias="schema")
    version: str
    selection: list[str]
    model: str
    counts: dict[str, int]
    groups: list[Group]
    details: list[SourceDetails]
    cases: list[CaseResult]


def summarise(cases: Sequence[CaseResult], selection: Sequence[str], model: str, version: str) -> Results:
    """Counts, groups and details of all results."""
    scored = [result for result in cases if result.status == "scored"]
    present = [source for source in SOURCES if any(result.tags.source == source for result in scored)]
    return Results(
        version=version,
        selection=list(selection),
        model=model,
        counts={"cases": len(cases), **Counter(result.status for result in cases)},
        groups=[
            group for source in present for group in _groups(source, [r for r in scored if r.tags.source == source])
        ],
        details=[_details(source, [r for r in scored if r.tags.source == source]) for source in present],
        cases=list(cases),
    )


def _groups(source: str, results: Sequence[CaseResult]) -> list[Group]:
    groups = [_group(source, "", "", results)]
    for dimension in DIMENSIONS:
        by_value: dict[str, list[CaseResult]] = {}
        for result in results:
            by_value.setdefault(str(getattr(result.tags, dimension)), []).append(result)
        groups += [_group(source, dimension, value, chosen) for value, chosen in sorted(by_value.items())]
    return groups


def _group(source: str, dimension: str, value: str, results: Sequence[CaseResult]) -> Group:
    right = sum(not result.misses for result in results)
    return Group(
        source=source, dimension=dimension, value=value, cases=len(results), right=right, scores=means(results)
    )


def _details(source: str, results: Sequence[CaseResult]) -> SourceDetails:
    curve, error = calibration(results)
    return SourceDetails(
        source=source, curve=curve, calibration_error=error, confusion=confusion(results), gains=gains(results)
    )
