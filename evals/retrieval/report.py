"""The figures of outcomes, and the report that shows them."""

from __future__ import annotations

import math
import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, fmean

import yaml

from evals.retrieval.asking import RANKED_APART, TOP, Asked, Outcome
from evals.retrieval.cost import Timing
from evals.retrieval.paraphrases import Paraphrased

Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Found:
    """Of ``asked`` in scope: the share found among the first three, the mean reciprocal place, the share abstained on.

    ``forced`` is the share found if nothing were abstained on; ``in_vain`` the share of the abstentions that hid no
    right cause (nan without abstentions).
    """

    asked: int
    recall: float
    reciprocal: float
    abstained: float
    forced: float
    in_vain: float


@dataclass(frozen=True)
class Abstaining:
    """Abstention as a judgement of scope: precision over the abstentions, recall over the questions out of scope."""

    out_of_scope: int
    in_scope: int
    precision: float
    recall: float


def found(outcomes: Sequence[Outcome]) -> Found:
    """The figures of askings in scope; an abstention is a miss."""
    return Found(
        asked=len(outcomes),
        recall=_mean([outcome.found for outcome in outcomes]),
        reciprocal=_mean([1 / outcome.place if outcome.place else 0.0 for outcome in outcomes]),
        abstained=_mean([outcome.abstained for outcome in outcomes]),
        forced=_mean([0 < outcome.forced <= TOP for outcome in outcomes]),
        in_vain=_mean([not 0 < outcome.forced <= TOP for outcome in outcomes if outcome.abstained]),
    )


def abstaining(outcomes: Sequence[Outcome]) -> Abstaining:
    """Precision and recall of abstention on the questions out of scope (empty cause)."""
    outside = [outcome for outcome in outcomes if not outcome.cause]
    return Abstaining(
        out_of_scope=len(outside),
        in_scope=len(outcomes) - len(outside),
        precision=_mean([not outcome.cause for outcome in outcomes if outcome.abstained]),
        recall=_mean([outcome.abstained for outcome in outside]),
    )


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else float("nan")


NOTES = Path(__file__).with_name("report.yaml")
WANTED = dict(zip((*RANKED_APART, "signals and three candidate causes"), ("0.80", "0.80", "0.90", "0.90"), strict=True))
COMPARED = ("all", "vector only", "without vector")
Row = Sequence[str | float]


def report(
    asked: Asked,
    timings: Sequence[Timing],
    command: str,
    minilm: Asked | None = None,
    paraphrased: Mapping[str, Mapping[str, Paraphrased]] | None = None,
) -> str:
    """All tables with the notes of ``report.yaml``; ``minilm`` is the same measured with MiniLM's vectors.

    ``paraphrased`` has the figures of each set of paraphrases by ablation.
    """
    every = next(iter(asked.cases.values()))
    tables: dict[str, list[Row]] = {
        "cases": [*_cases(asked)],
        "questions": [*_questions(asked)],
        "paraphrases": [*_paraphrases(paraphrased or {})],
        "abstention": [*_abstention(asked)],
        "ablations": [(name, *map(_both, by_set.values())) for name, by_set in asked.ablations.items()],
        "causes": [*_causes(asked)],
        "costs": [_cost(timing) for timing in timings],
        "embeddings": [] if minilm is None else [*_compared("hashed", asked), *_compared("MiniLM", minilm)],
    }
    notes = yaml.safe_load(NOTES.read_text(encoding="utf-8"))
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    lines = [notes["head"].format(cases=len(every), causes=len({each.cause for each in every}), command=command)]
    for name, rows in tables.items():
        section, columns = notes[name], notes[name]["columns"]
        lines += [f"## {section['title']}", section["before"] if rows else section.get("empty", "")]
        if rows:
            lines.append("\n".join([_row(columns), "|" + "---|" * len(columns), *map(_row, rows)]))
        lines.append(section["after"].format(**machine))
    return "\n\n".join(filter(None, map(str.strip, lines))) + "\n"


def _cases(asked: Asked) -> Iterator[Row]:
    for way, outcomes in asked.cases.items():
        got = found(outcomes)
        shares = (f"{got.abstained:.0%}", f"{got.in_vain:.0%}" if got.abstained else "-")
        yield way, WANTED.get(way, ""), got.asked, got.recall, got.reciprocal, *shares, got.forced


def _questions(asked: Asked) -> Iterator[Row]:
    for half, outcomes in asked.questions.items():
        got = found([outcome for outcome in outcomes if outcome.cause])
        if got.asked:
            yield half, "0.85", got.asked, got.recall, got.reciprocal, f"{got.abstained:.0%}", got.forced


def _paraphrases(sets: Mapping[str, Mapping[str, Paraphrased]]) -> Iterator[Row]:
    for name, by_ablation in sets.items():
        for ablation, got in by_ablation.items():
            figures = found(got.outcomes)
            itself = "-" if got.case_top is None else got.case_top
            shares = (f"{figures.abstained:.0%}", figures.forced, itself, got.off_topic_abstained)
            low, high = interval(got.top, len(got.outcomes))
            yield name, ablation, got.first, got.top, f"{low:.2f} to {high:.2f}", figures.reciprocal, *shares


def interval(share: float, number: int) -> tuple[float, float]:
    """The 95 % interval of a share of ``number`` askings by Wilson (1927), which holds for few askings too."""
    middle = share + Z**2 / (2 * number)
    half = Z * math.sqrt(share * (1 - share) / number + Z**2 / (4 * number**2))
    return (middle - half) / (1 + Z**2 / number), (middle + half) / (1 + Z**2 / number)


def _abstention(asked: Asked) -> Iterator[Row]:
    for half, outcomes in asked.questions.items():
        got = abstaining(outcomes)
        # Without questions in scope no abstention can be wrong, and precision says nothing.
        yield half, got.in_scope, got.out_of_scope, got.recall, "0.90", got.precision if got.in_scope else "-"


def _compared(embedding: str, asked: Asked) -> Iterator[Row]:
    for name in COMPARED:
        yield embedding, name, *map(_both, asked.ablations[name].values())


def _causes(asked: Asked) -> Iterator[Row]:
    users = [outcome for outcomes in asked.questions.values() for outcome in outcomes]
    columns = [*(asked.cases[way] for way in RANKED_APART), users]
    for cause, _ in Counter(outcome.cause for outcome in asked.cases["title and symptom"]).most_common():
        yield f"`{cause}`", *(_counted([each for each in column if each.cause == cause]) for column in columns)


def _cost(t: Timing) -> Row:
    times = (f"{t.build_s:.2f}", f"{t.open_s:.2f}", f"{t.query_ms:.1f}")
    return f"{t.cases:,}", *times, round(t.slowest_ms), round(t.peak_mib)


def _counted(outcomes: Sequence[Outcome]) -> str:
    silent = sum(outcome.abstained for outcome in outcomes)
    counted = f"{sum(outcome.found for outcome in outcomes)}/{len(outcomes)}"
    return f"{counted} ({silent} abstained)" if silent else counted


def _both(places: Sequence[int]) -> str:
    """Recall@3 and MRR of places, 0 where the right cause was not among the first ten."""
    recall, reciprocal = (_mean([0 < p <= TOP for p in places]), _mean([1 / p if p else 0.0 for p in places]))
    return f"{recall:.3f} / {reciprocal:.3f}"


def _row(cells: Row) -> str:
    return "| " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"
