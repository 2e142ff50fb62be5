"""Does the answer hold back where it should? Each scorer gives None when not asked."""

from __future__ import annotations

import re

from evals.outcome import Outcome
from evals.scorers.texts import all_texts

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
