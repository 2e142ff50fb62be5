"""Is the right cause named, in the right place, with the right scope? Each scorer gives None when not asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from evals.case_schema import Verdict
from evals.outcome import Outcome
from hermes_agent.model.diagnosis import CauseRecord

VERDICTS = get_args(Verdict)


def _right(outcome: Outcome, cause: CauseRecord) -> bool:
    return cause.cause in outcome.case.expected.accepted


def top_1(outcome: Outcome) -> float | None:
    """Whether the first cause is an expected one, or one that the label calls right as well."""
    if not outcome.case.expected.causes:
        return None
    return float(bool(outcome.ranked) and _right(outcome, outcome.ranked[0]))


def also_right(outcome: Outcome) -> float | None:
    """Whether the first cause is right only because the label takes it as well: a part of ``top_1``, told apart."""
    expected = outcome.case.expected
    if not expected.causes:
        return None
    return float(top_1(outcome) == 1.0 and outcome.ranked[0].cause not in expected.causes)


def top_3(outcome: Outcome) -> float | None:
    """Share of what is expected (all of ``all_of``, one of ``any_of``) that is among the first three."""
    expected = outcome.case.expected
    if not expected.causes:
        return None
    first = {cause.cause for cause in outcome.ranked[:3]}
    if expected.any_of:
        return float(bool(first & set(expected.accepted)))
    return len(first & set(expected.causes)) / len(set(expected.causes))


def diagnosed(outcome: Outcome) -> float | None:
    """Whether the answer stands for it: verdict ``problem`` and the first cause an expected one."""
    first = top_1(outcome)
    if first is None:
        return None
    return float(first == 1.0 and outcome.diagnosis is not None and outcome.diagnosis.verdict == "problem")


def mechanism(outcome: Outcome) -> float | None:
    """Whether the mechanism is right, where one is labelled and its cause was found first."""
    labelled = [tuple(n.split("/")) for n in (*outcome.case.expected.any_of, *outcome.case.expected.all_of) if "/" in n]
    if not labelled or top_1(outcome) != 1.0:
        return None
    first = outcome.ranked[0]
    wanted = [name for cause, name in labelled if cause == first.cause]
    return float(first.mechanism in wanted) if wanted else None


def family(outcome: Outcome) -> float | None:
    """Whether the first cause belongs to the expected family."""
    wanted = outcome.case.expected.family
    if wanted is None:
        return None
    return float(bool(outcome.ranked) and outcome.ranked[0].family == wanted)


def verdict(outcome: Outcome) -> float | None:
    """Whether the verdict is one of those that are right; not asked where all of them are."""
    wanted = outcome.case.expected.verdict
    if not wanted or len(set(wanted)) == len(VERDICTS):
        return None
    return float(outcome.diagnosis is not None and outcome.diagnosis.verdict in wanted)


def _found(outcome: Outcome) -> CauseRecord | None:
    return next((cause for cause in outcome.ranked if _right(outcome, cause)), None)


def overlap(wanted: Sequence[int], got: Sequence[int]) -> float:
    """Shared members over all members; 1 for equal sets."""
    both = set(wanted) | set(got)
    return len(set(wanted) & set(got)) / len(both) if both else 1.0


def rank_scope(outcome: Outcome) -> float | None:
    """How far the ranks of the right cause agree; 0 when it was not found."""
    wanted = outcome.case.expected.ranks
    if wanted is None:
        return None
    cause = _found(outcome)
    return 0.0 if cause is None else overlap(wanted, cause.ranks)


def step_scope(outcome: Outcome) -> float | None:
    """How far the steps of the right cause agree; 0 when it was not found."""
    wanted = outcome.case.expected.steps
    if wanted is None:
        return None
    cause = _found(outcome)
    return 0.0 if cause is None else overlap(wanted, cause.steps)


def set_f1(outcome: Outcome) -> float | None:
    """F1 of the asserted causes against the expected ones; allowed consequences do not count."""
    expected = outcome.case.expected
    if not expected.causes:
        return None
    allowed = {name.partition("/")[0] for name in expected.besides} - set(expected.accepted)
    named = {cause.cause for cause in outcome.asserted} - allowed
    right = named & set(expected.accepted)
    wanted = 1 if expected.any_of else len(set(expected.causes))
    hits = min(len(right), wanted)
    wrong = len(named - right)
    return 2.0 * hits / (hits + wrong + wanted)
