"""The results of a suite: means with bootstrap intervals, calibration, confusion, predicted gains, use of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from statistics import fmean
from types import MappingProxyType
from typing import Literal

import numpy as np
from pydantic import ConfigDict, Field

from evals.outcome import CaseResult
from evals.synthetic.spec import Record
from tools.whatif.claim import COVERS_PCT

RESAMPLES = 2000
CONFIDENCE = 0.95
EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
NONE_NAMED = "(none)"
CLAIMED = COVERS_PCT / 100.0  # how often a predicted interval says that it holds the truth


class Mean(Record):
    """A mean over cases with its 95 % bootstrap percentile interval."""

    mean: float
    low: float
    high: float
    cases: int


class Bin(Record):
    """Stated confidences from ``low`` on and below ``high``, and how often they were right."""

    low: float
    high: float
    confidence: float
    accuracy: float
    cases: int


class Gains(Record):
    """Predicted against measured gain over pairs with one cause. Errors are in % of the step time.

    ``unpredicted`` are pairs for whose right cause no gain was predicted (most of them misses); in
    ``median_error_all_pct`` they count as if no gain had been predicted, in the rest they do not count.
    """

    cases: int
    median_error_pct: float
    covered: Mean  # the interval holds the measured speedup
    claimed: float = CLAIMED
    met: Mean | None = None  # the interval and the measurement's own have a value in common
    unpredicted: int = 0
    median_error_all_pct: float | None = None


class ModelTotals(Record):
    """Means per case over those that asked a model. ``pass_all`` is pass^k: all k attempts at a case without a miss."""

    cases: int
    attempts: int  # at each case
    pass_all: Mean
    pass_one: Mean  # share of attempts that pass
    written_by_model: Mean  # the rest are templates: what was written did not stand
    calls: float
    tokens: float
    seconds: float
    cost: float | None  # None where no prices are known


def mean(values: Sequence[float]) -> Mean | None:
    """The mean of the values; None without any."""
    if not values:
        return None
    data = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(0).choice(data, (RESAMPLES, len(data))).mean(axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Mean(mean=float(data.mean()), low=float(low), high=float(high), cases=len(data))


def means(results: Sequence[CaseResult]) -> dict[str, Mean]:
    """The mean of every score over the cases that ask for it."""
    names = dict.fromkeys(name for result in results for name in result.scores)
    scored = {name: [r.scores[name] for r in results if name in r.scores] for name in names}
    return {name: found for name, values in scored.items() if (found := mean(values)) is not None}


def calibration(results: Sequence[CaseResult]) -> tuple[list[Bin], float | None]:
    """The curve of the first causes' confidence against being right, and the expected calibration error.

    Counted are cases that label a cause and healthy ones, where any cause named first is wrong.
    """
    asked = [r for r in results if r.named and ("top_1" in r.scores or r.tags.kind == "healthy")]
    if not asked:
        return [], None
    stated = np.array([r.named[0].confidence for r in asked])
    right = np.array([r.scores.get("top_1", 0.0) for r in asked])
    place = np.digitize(stated, EDGES[1:-1])
    curve = [
        Bin(
            low=low,
            high=high,
            confidence=float(stated[place == at].mean()),
            accuracy=float(right[place == at].mean()),
            cases=int((place == at).sum()),
        )
        for at, (low, high) in enumerate(pairwise(EDGES))
        if (place == at).any()
    ]
    error = sum(each.cases * abs(each.confidence - each.accuracy) for each in curve) / len(asked)
    return curve, float(error)


def confusion(results: Sequence[CaseResult]) -> dict[str, dict[str, int]]:
    """For every labelled cause (or healthy) how often which cause came first; ``(none)`` where none was named."""
    table: dict[str, Counter[str]] = {}
    for result in results:
        label = result.expected[0].partition("/")[0] if result.expected else result.tags.kind
        if result.status != "scored" or not (result.expected or result.tags.kind == "healthy"):
            continue
        table.setdefault(label, Counter())[result.named[0].cause if result.named else NONE_NAMED] += 1
    return {label: dict(counts.most_common()) for label, counts in sorted(table.items())}


def gains(results: Sequence[CaseResult]) -> Gains | None:
    """Errors and coverage of the predicted gains; None without any."""
    known = [result.gain for result in results if result.gain is not None]
    missing = [r.measured_saving_pct for r in results if r.gain is None and r.measured_saving_pct is not None]
    covered = mean([float(each.covered) for each in known])
    if covered is None:
        return None
    errors = [each.error_pct for each in known]
    return Gains(
        cases=len(known),
        median_error_pct=float(np.median(errors)),
        covered=covered,
        met=mean([float(each.meets) for each in known if each.meets is not None]),
        unpredicted=len(missing),
        median_error_all_pct=float(np.median([*errors, *missing])),
    )


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
        calls=fmean(use.calls for use in used),
        tokens=fmean(use.tokens for use in used),
        seconds=fmean(use.seconds for use in used),
        cost=fmean(costs) if len(costs) == len(used) else None,
    )


Schema = Literal["hermes-dx/eval/2"]
REAL, OTHERS, SYNTHETIC = "real runs", "runs of others", "synthetic"
POOLS: Mapping[str, str] = MappingProxyType({"real": REAL, "lab": REAL, "others": OTHERS, "synthetic": SYNTHETIC})
SPLITS = ("", "dev", "test")  # "" is both
DIMENSIONS = ("source", "kind", "family", "difficulty", "fault", "scale")


class Group(Record):
    """The scored cases of one pool and split, all of them or those with one value of a tag."""

    pool: str
    split: str = ""
    dimension: str = ""
    value: str = ""
    cases: int
    right: int  # cases without a miss
    seconds: float  # median per case
    scores: dict[str, Mean]


class Details(Record):
    """Details of one pool and split as a whole."""

    pool: str
    split: str
    curve: list[Bin]
    calibration_error: float | None
    confusion: dict[str, dict[str, int]]
    gains: Gains | None


class Results(Record):
    """One saved run of the suite."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Schema = Field(default="hermes-dx/eval/2", alias="schema")
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
    parts: list[tuple[str, str, list[CaseResult]]] = []
    for pool, split in product((REAL, OTHERS, SYNTHETIC), SPLITS):
        chosen = [r for r in scored if POOLS[r.tags.source] == pool and split in ("", r.tags.split)]
        parts += [(pool, split, chosen)] if chosen else []
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


def _groups(pool: str, split: str, results: Sequence[CaseResult]) -> list[Group]:
    groups = [_group(pool, split, "", "", results)]
    for dimension in DIMENSIONS:
        by_value: dict[str, list[CaseResult]] = {}
        for result in results:
            by_value.setdefault(str(getattr(result.tags, dimension)), []).append(result)
        groups += [_group(pool, split, dimension, value, by_value[value]) for value in sorted(by_value) if value]
    return groups


def _group(pool: str, split: str, dimension: str, value: str, results: Sequence[CaseResult]) -> Group:
    right, seconds = sum(not result.misses for result in results), np.median([result.seconds for result in results])
    fields = {"cases": len(results), "right": right, "seconds": round(float(seconds), 2), "scores": means(results)}
    return Group.model_validate({"pool": pool, "split": split, "dimension": dimension, "value": value, **fields})


def _details(pool: str, split: str, results: Sequence[CaseResult]) -> Details:
    curve, error = calibration(results)
    found = {"curve": curve, "calibration_error": error, "confusion": confusion(results), "gains": gains(results)}
    return Details.model_validate({"pool": pool, "split": split, **found})
