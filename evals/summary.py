"""What a model did over the whole suite: how reliably it answered, and what that took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from evals.outcome import CaseResult
from evals.statistics import Bin, Gains, Mean, calibration, confusion, gains, mean, means


class ModelTotals(BaseModel):
    """Means per case over those that asked a model. ``pass_all`` is pass^k: all k attempts at a case without a miss."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    cases: int
    attempts: int  # at each case
    pass_all: Mean
    pass_one: Mean  # share of attempts that pass
    written_by_model: Mean  # the rest are templates: what was written did not stand
    calls: float
    tokens: float
    seconds: float
    cost: float | None  # None where no prices are known


def model_totals(results: Sequence[CaseResult]) -> ModelTotals | None:
    """The totals of the scored results; None when no model was asked."""
    used = [result.model for result in results if result.model is not None]
    pass_all = mean([float(use.passes == use.attempts) for use in used])
    pass_one = mean([use.passes / use.attempts for use in used])
    written = mean([float(use.answer_by == "model") for use in used])
    if pass_all is None or pass_one is None or written is None:
        return None
    costs = [use.cost for use in used if use.cost is not None]
    return ModelTotals(
        cases=len(used),
        attempts=min(use.attempts for use in used),
        pass_all=pass_all,
        pass_one=pass_one,
        written_by_model=written,
        calls=sum(use.calls for use in used) / len(used),
        tokens=sum(use.tokens for use in used) / len(used),
        seconds=sum(use.seconds for use in used) / len(used),
        cost=sum(costs) / len(costs) if len(costs) == len(used) else None,
    )


Schema = Literal["hermes-dx/eval/2"]
SCHEMA: Schema = "hermes-dx/eval/2"
REAL, SYNTHETIC = "real runs", "synthetic"
POOLS: Mapping[str, str] = MappingProxyType({"real": REAL, "lab": REAL, "synthetic": SYNTHETIC})
SPLITS = ("", "dev", "test")  # "" is both
DIMENSIONS = ("source", "kind", "family", "difficulty", "fault", "scale")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Group(_Record):
    """The scored cases of one pool and split, all of them or those with one value of a tag."""

    pool: str
    split: str = ""
    dimension: str = ""
    value: str = ""
    cases: int
    right: int  # cases without a miss
    seconds: float  # median per case
    scores: dict[str, Mean]


class Details(_Record):
    """Details of one pool and split as a whole."""

    pool: str
    split: str
    curve: list[Bin]
    calibration_error: float | None
    confusion: dict[str, dict[str, int]]
    gains: Gains | None


class Results(_Record):
    """One saved run of the suite."""

    schema_: Schema = Field(default=SCHEMA, alias="schema")
    version: str
    selection: list[str]
    model: str
    counts: dict[str, int]
    seconds: float = 0.0  # wall time of the suite
    at_once: int = 1  # cases at the same time
    groups: list[Group]
    details: list[Details]
    totals: ModelTotals | None = None
    cases: list[CaseResult]


def summarise(
    cases: Sequence[CaseResult],
    selection: Sequence[str],
    model: str,
    version: str,
    seconds: float = 0.0,
    at_once: int = 1,
) -> Results:
    """Counts, groups and details of all results."""
    scored = [result for result in cases if result.status == "scored"]
    parts = [
        (pool, split, chosen) for pool in (REAL, SYNTHETIC) for split in SPLITS if (chosen := _in(scored, pool, split))
    ]
    return Results(
        version=version,
        selection=list(selection),
        model=model,
        counts={"cases": len(cases), **Counter(result.status for result in cases)},
        seconds=round(seconds, 1),
        at_once=at_once,
        groups=[group for part in parts for group in _groups(*part)],
        details=[_details(*part) for part in parts],
        totals=model_totals(scored),
        cases=list(cases),
    )


def _in(results: Sequence[CaseResult], pool: str, split: str) -> list[CaseResult]:
    return [r for r in results if POOLS[r.tags.source] == pool and split in ("", r.tags.split)]


def _groups(pool: str, split: str, results: Sequence[CaseResult]) -> list[Group]:
    groups = [_group(pool, split, "", "", results)]
    for dimension in DIMENSIONS:
        by_value: dict[str, list[CaseResult]] = {}
        for result in results:
            by_value.setdefault(str(getattr(result.tags, dimension)), []).append(result)
        groups += [_group(pool, split, dimension, value, by_value[value]) for value in sorted(by_value) if value]
    return groups


def _group(pool: str, split: str, dimension: str, value: str, results: Sequence[CaseResult]) -> Group:
    return Group(
        pool=pool,
        split=split,
        dimension=dimension,
        value=value,
        cases=len(results),
        right=sum(not result.misses for result in results),
        seconds=round(float(np.median([result.seconds for result in results])), 2),
        scores=means(results),
    )


def _details(pool: str, split: str, results: Sequence[CaseResult]) -> Details:
    curve, error = calibration(results)
    return Details(
        pool=pool,
        split=split,
        curve=curve,
        calibration_error=error,
        confusion=confusion(results),
        gains=gains(results),
    )
