"""A finding with its place among what would be worth mending."""

from __future__ import annotations

from dataclasses import dataclass

from tools.findings import Finding
from tools.whatif.predict import Prediction


@dataclass(frozen=True, eq=False)
class RankedCause:
    """A finding with its place.

    ``impact_ms`` is what the step would lose if the cause were gone, never more than what is left after everything
    ranked above it. ``then_ms`` is what it is worth once those are gone: more than ``impact_ms`` where they hide it.
    Both are of a step of ``step_ms``: the mean traced one, or the mean unprofiled one where records tell the saving.
    """

    finding: Finding
    check: str
    step_ms: float
    impact_ms: float
    impact_pct: float
    then_ms: float
    alone: Prediction | None  # the step if only this were changed; None when it cannot be replayed
    method: str
    symptoms: tuple[Finding, ...] = ()
