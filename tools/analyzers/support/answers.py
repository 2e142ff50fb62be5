"""What an answer is made of: an outcome, sentences with figures, confidence, and the ranks that it concerns."""

from __future__ import annotations

from collections.abc import Mapping

from tools.findings import Check, Fact, Finding, Sentence

HIGHEST = 0.95  # no deterministic rule is surer than this


def found(*findings: Finding) -> Check:
    """The answer with at least one finding; its name is filled in where the check is run."""
    return Check("", "found", findings=findings)


def symptom(*support: Sentence) -> Check:
    """The answer where something was found that is not itself a cause."""
    return Check("", "found", support=support)


def clean(*support: Sentence) -> Check:
    """The answer where nothing is wrong; the sentences show it."""
    return Check("", "clean", support=support)


def cannot_answer(reason: str, needs: str, *support: Sentence) -> Check:
    """The answer where the sources do not allow one, and what to record."""
    return Check("", "cannot_answer", reason=reason, needs=needs, support=support)


def say(text: str, *facts: Fact, names: tuple[str, ...] = ()) -> Sentence:
    """A sentence with places ``{0}`` for facts and ``{n0}`` for names read from the run."""
    return Sentence(text, facts, names)


def values(figures: Mapping[int, float | Fact]) -> dict[int, float]:
    """The figures alone."""
    return {rank: figure.value if isinstance(figure, Fact) else figure for rank, figure in figures.items()}


def affected(shares_pct: Mapping[int, float | Fact], noted_pct: float) -> tuple[int, ...]:
    """The ranks whose share is worth noting and at least a fifth of the worst rank's; ascending."""
    shares = values(shares_pct)
    worst = max(shares.values(), default=0.0)
    return tuple(sorted(rank for rank, share in shares.items() if share >= max(noted_pct, worst / 5.0)))


def worst_of(shares_pct: Mapping[int, float | Fact]) -> int:
    """The rank with the largest share; the lowest of several."""
    shares = values(shares_pct)
    return min(shares, key=lambda rank: (-shares[rank], rank))


def confidence(*passed: tuple[float, float], at_most: float = HIGHEST) -> float:
    """From pairs (value, threshold): 0.5 where the tightest is just passed, 0.75 at twice, 0.9 at five times it."""
    ratio = min((value / threshold for value, threshold in passed), default=1.0)
    certain = 1.0 - 0.5 / ratio if ratio >= 1.0 else 0.5 * max(ratio, 0.0)
    return round(min(certain, at_most, HIGHEST), 3)
