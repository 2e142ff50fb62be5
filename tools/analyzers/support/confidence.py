"""Confidence from how far a definition's thresholds are passed."""

from __future__ import annotations

HIGHEST = 0.95  # no deterministic rule is surer than this


def confidence(*passed: tuple[float, float], at_most: float = HIGHEST) -> float:
    """From pairs (value, threshold): 0.5 where the tightest is just passed, 0.75 at twice, 0.9 at five times it.

    A value below its threshold gives less than 0.5. ``at_most`` caps the result where the evidence itself is thin.
    """
    ratio = min((value / threshold for value, threshold in passed), default=1.0)
    certain = 1.0 - 0.5 / ratio if ratio >= 1.0 else 0.5 * max(ratio, 0.0)
    return round(min(certain, at_most, HIGHEST), 3)
