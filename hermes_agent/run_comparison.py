"""What changed from one run to another, in words and with its figures, for frontends without a diagnosis of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_agent.evidence.citations import without_citations
from hermes_agent.evidence.ledger import Ledger, render
from tools.comparison.compare import compare
from tools.views.profile import Profile

if TYPE_CHECKING:
    from tools.comparison.compare import Comparison


@dataclass(frozen=True)
class RunComparison:
    """Sentences without citations: their figures belong to no diagnosis.."""

    headline: str
    changes: tuple[str, ...]
    notes: tuple[str, ...]  # what was assumed
    comparison: Comparison


def compared(before: Profile, after: Profile) -> RunComparison:
    """The changes between two runs; raises NotComparableError with every reason against comparing them."""
    found = compare(Profile(before.run, before.thresholds, label="baseline"), after)
    ledger = Ledger()
    return RunComparison(
        without_citations(render(found.headline, ledger)),
        tuple(without_citations(render(change, ledger)) for change in found.changes),
        tuple(f"Not verified: {note}" for note in found.notes),
        found,
    )
