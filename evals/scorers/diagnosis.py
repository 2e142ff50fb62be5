"""Scores of one diagnosis: the right cause in the right place and scope, restraint, and the predicted gain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from evals.case_schema import Case, Verdict
from evals.outcome import Gain, Outcome
from evals.scorers.texts import all_texts
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
    """Whether the first cause is right only because the label takes it as well: a part of ``top_1``, reported apart."""
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
    allowed = {name.partition("/")[0] for name in expected.also_allowed} - set(expected.accepted)
    named = {cause.cause for cause in outcome.asserted} - allowed
    right = named & set(expected.accepted)
    wanted = 1 if expected.any_of else len(set(expected.causes))
    hits = min(len(right), wanted)
    wrong = len(named - right)
    return 2.0 * hits / (hits + wrong + wanted)


BETWEEN_WORDS = re.compile(r"[\s_-]+|(?<=[a-z])(?=[A-Z])")


def healthy_false_positive(outcome: Outcome) -> float | None:
    """On a healthy run: 1 when a problem is claimed (lower is better)."""
    if outcome.case.tags.kind != "healthy" or outcome.diagnosis is None:
        return None
    return float(outcome.diagnosis.verdict == "problem")


def abstention(outcome: Outcome) -> float | None:
    """Where only ``inconclusive`` is right, whether the answer abstains."""
    if outcome.case.expected.verdict != ("inconclusive",) or outcome.diagnosis is None:
        return None
    return float(outcome.diagnosis.verdict == "inconclusive")


def refusal(outcome: Outcome) -> float | None:
    """Where runs must be refused, whether they were, for the right reason."""
    wanted = outcome.case.expected.error
    return None if wanted is None else float(outcome.refusal == wanted)


def no_forbidden_cause(outcome: Outcome) -> float | None:
    """Whether no cause that the case rules out is asserted."""
    forbidden = {name.partition("/")[0] for name in outcome.case.expected.not_causes}
    if not forbidden or outcome.diagnosis is None:
        return None
    return float(not forbidden & {cause.cause for cause in outcome.asserted})


def no_forbidden_text(outcome: Outcome) -> float | None:
    """Whether nothing that must not be said is said; names quoted from the run are no saying of ours."""
    if not outcome.case.must_not_say or outcome.diagnosis is None:
        return None
    said = "\n".join(all_texts(outcome)).lower()
    return float(not any(words.lower() in said for words in outcome.case.must_not_say))


def answer_says(outcome: Outcome) -> float | None:
    """Share of the texts that the answer to the question must hold."""
    wanted = outcome.case.answer_must_say
    if not wanted:
        return None
    text = "" if outcome.answer is None else outcome.answer.text.lower()
    return sum(words.lower() in text for words in wanted) / len(wanted)


def names(outcome: Outcome) -> float | None:
    """Share of what a complete answer names that the texts hold, in whichever spelling."""
    wanted = outcome.case.expected.names
    if not wanted or outcome.diagnosis is None:
        return None
    said = "\n".join(all_texts(outcome))
    return sum(_spelled(words).search(said) is not None for words in wanted) / len(wanted)


def _spelled(name: str) -> re.Pattern[str]:
    """All spellings of a name: ``DataLoader``, ``data loader`` and ``data-loader`` are one, rank 1 is not rank 12."""
    words = r"[\s_-]*".join(re.escape(word) for word in BETWEEN_WORDS.split(name))
    return re.compile(rf"(?<!\d){words}(?!\d)", re.IGNORECASE)


def gain(outcome: Outcome) -> Gain | None:
    """The first advice for the first right cause against what fixing brought; None where either is missing."""
    measured = outcome.measured
    if measured is None or outcome.diagnosis is None or not only_cause(outcome.case):
        return None
    for item in outcome.diagnosis.advice:
        if item.for_ in outcome.case.expected.accepted and item.predicted_speedup is not None and item.interval:
            true = measured.before_ms / measured.after_ms
            low, high = item.interval
            least, most = measured.speedup_low or true, measured.speedup_high or true
            return Gain(
                predicted=item.predicted_speedup,
                low=low,
                high=high,
                measured=true,
                error_pct=abs(_saving_pct(item.predicted_speedup) - _saving_pct(true)),
                covered=low <= true <= high,
                meets=low <= most and least <= high,
            )
    return None


def only_cause(case: Case) -> bool:
    """Whether one cause alone is expected: only then is the pair's saving that of one change."""
    return len(set(case.expected.causes)) == 1


def _saving_pct(speedup: float) -> float:
    return 100.0 * (1.0 - 1.0 / speedup)
