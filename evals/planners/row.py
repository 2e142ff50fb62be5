"""One line of the acceptance table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["pass", "fail", "not run"]
Origin: TypeAlias = Literal["exhaustive search", "simulation", "published data", "measured", "official solver"]


@dataclass(frozen=True)
class Row:
    """A question to a planner, the figure found and whether it suffices; ``how`` is the origin of the figure."""

    planner: str
    question: str
    wanted: str
    found: str
    verdict: Verdict
    how: Origin


def judged(planner: str, question: str, wanted: str, found: str, good: bool, how: Origin) -> Row:
    """Return a row that passes or fails."""
    return Row(planner, question, wanted, found, "pass" if good else "fail", how)
