"""Outcomes to figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals.retrieval.asking import TOP, Outcome


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
    silent = [outcome for outcome in outcomes if outcome.abstained]
    return Found(
        asked=len(outcomes),
        recall=_share(sum(outcome.found for outcome in outcomes), len(outcomes)),
        reciprocal=_share(sum(1 / outcome.place for outcome in outcomes if outcome.place), len(outcomes)),
        abstained=_share(len(silent), len(outcomes)),
        forced=_share(sum(0 < outcome.forced <= TOP for outcome in outcomes), len(outcomes)),
        in_vain=_share(sum(not 0 < outcome.forced <= TOP for outcome in silent), len(silent)),
    )


def abstaining(outcomes: Sequence[Outcome]) -> Abstaining:
    """How well abstention parts the questions out of scope (empty cause) from the others."""
    outside = [outcome for outcome in outcomes if not outcome.cause]
    rightly = sum(outcome.abstained for outcome in outside)
    return Abstaining(
        out_of_scope=len(outside),
        in_scope=len(outcomes) - len(outside),
        precision=_share(rightly, sum(outcome.abstained for outcome in outcomes)),
        recall=_share(rightly, len(outside)),
    )


def _share(part: float, whole: int) -> float:
    return part / whole if whole else float("nan")
