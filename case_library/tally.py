"""How many cases there are of each cause, and how sure they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.taxonomy import causes

if TYPE_CHECKING:
    from case_library.schema import Case

ENOUGH = 3  # confirmed cases below which a cause is thin


@dataclass(frozen=True)
class CauseTally:
    """The cases of one cause by confidence; ``private`` of them are a team's own."""

    cause: str
    family: str
    high: int
    medium: int
    low: int
    private: int

    @property
    def total(self) -> int:
        """All cases of the cause."""
        return self.high + self.medium + self.low

    @property
    def confirmed(self) -> int:
        """Cases whose cause the source bears out; in the others it is the source's guess."""
        return self.high + self.medium


def tally(cases: Iterable[Case]) -> tuple[CauseTally, ...]:
    """One row for each cause of the taxonomy, in its order, those without a case as well."""
    chosen = list(cases)
    counts = Counter((case.cause, case.confidence) for case in chosen)
    private = Counter(case.cause for case in chosen if case.private)
    return tuple(
        CauseTally(
            name,
            cause.family,
            counts[name, "high"],
            counts[name, "medium"],
            counts[name, "low"],
            private[name],
        )
        for name, cause in causes().items()
    )


def confirmed(case: Case) -> bool:
    """Whether the source bears the cause out, rather than guessing it."""
    return case.confidence != "low"
