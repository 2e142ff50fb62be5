"""The results of a suite: counts, scores of each origin and split, and what more is said of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Literal

import numpy as np
from pydantic import ConfigDict, Field

from evals.results.calibration import Bin, calibration
from evals.results.held_out import HeldOut, held_out
from evals.results.means import Mean, means
from evals.results.model_totals import ModelTotals, model_totals
from evals.results.predicted_gains import CauseGains, Gains, SharedGains, gains, gains_by_cause, shared_gains
from evals.results.source_table import Sourced, by_sources
from evals.suite.origins import ORIGINS, OriginShare, by_origin
from evals.suite.outcome import CaseResult
from evals.synthetic.spec import Record

NONE_NAMED = "(none)"
Schema = Literal["hermes-dx/eval/3"]
SPLITS = ("", "dev", "test")  # "" is both
DIMENSIONS = ("kind", "family", "difficulty", "fault", "scale")


class Group(Record):
    """The scored cases of one origin and split, all of them or those with one value of a tag."""

    origin: str
    split: str = ""
    dimension: str = ""
    value: str = ""
    cases: int
    right: int  # cases without a miss
    seconds: float  # median per case
    scores: dict[str, Mean]


class Details(Record):
    """Details of one origin and split as a whole."""

    origin: str
    split: str
    curve: list[Bin]
    calibration_error: float | None
    confusion: dict[str, dict[str, int]]
    gains: Gains | None
    gains_by_cause: list[CauseGains]
    shared: SharedGains | None


class Results(Record):
    """One saved run of the suite."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Schema = Field(default="hermes-dx/eval/3", alias="schema")
    version: str
    selection: list[str]
    model: str
    counts: dict[str, int]
    seconds: float = 0.0  # wall time of the suite
    at_once: int = 1  # cases at the same time
    first_causes: list[OriginShare]  # right first causes, worst origin first: the headline
    false_positives: list[OriginShare]  # healthy runs called a problem, worst origin first
    groups: list[Group]
    details: list[Details]
    sourced: Sourced  # everything else is of runs with all of their sources
    held_out: list[HeldOut]
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
    whole = [result for result in scored if result.tags.sources == "all"]
    parts: list[tuple[str, str, list[CaseResult]]] = []
    for (source, origin), split in product(ORIGINS.items(), SPLITS):
        chosen = [r for r in whole if r.tags.source == source and split in ("", r.tags.split)]
        parts += [(origin, split, chosen)] if chosen else []
    return Results(
        version=version,
        selection=list(selection),
        model=model,
        counts={"cases": len(cases), **Counter(result.status for result in cases)},
        seconds=round(seconds, 1),
        at_once=at_once,
        first_causes=by_origin(whole, "top_1"),
        false_positives=by_origin(whole, "healthy_false_positive")[::-1],
        groups=[group for part in parts for group in _groups(*part)],
        details=[_details(*part) for part in parts],
        sourced=by_sources(scored),
        held_out=held_out(whole),
        totals=model_totals(scored),
        cases=list(cases),
    )


def _groups(origin: str, split: str, results: Sequence[CaseResult]) -> list[Group]:
    groups = [_group(origin, split, "", "", results)]
    for dimension in DIMENSIONS:
        by_value: dict[str, list[CaseResult]] = {}
        for result in results:
            by_value.setdefault(str(getattr(result.tags, dimension)), []).append(result)
        groups += [_group(origin, split, dimension, value, by_value[value]) for value in sorted(by_value) if value]
    return groups


def _group(origin: str, split: str, dimension: str, value: str, results: Sequence[CaseResult]) -> Group:
    right, seconds = sum(not result.misses for result in results), np.median([result.seconds for result in results])
    fields = {"cases": len(results), "right": right, "seconds": round(float(seconds), 2), "scores": means(results)}
    return Group.model_validate({"origin": origin, "split": split, "dimension": dimension, "value": value, **fields})


def _details(origin: str, split: str, results: Sequence[CaseResult]) -> Details:
    curve, error = calibration(results)
    found = {"curve": curve, "calibration_error": error, "confusion": confusion(results), "gains": gains(results)}
    causes = {"gains_by_cause": gains_by_cause(results), "shared": shared_gains(results)}
    return Details.model_validate({"origin": origin, "split": split, **found, **causes})


def confusion(results: Sequence[CaseResult]) -> dict[str, dict[str, int]]:
    """For every labelled cause (or healthy) how often which cause came first; ``(none)`` where none was named."""
    table: dict[str, Counter[str]] = {}
    for result in results:
        label = result.expected[0].partition("/")[0] if result.expected else result.tags.kind
        if result.status != "scored" or not (result.expected or result.tags.kind == "healthy"):
            continue
        table.setdefault(label, Counter())[result.named[0].cause if result.named else NONE_NAMED] += 1
    return {label: dict(counts.most_common()) for label, counts in sorted(table.items())}
