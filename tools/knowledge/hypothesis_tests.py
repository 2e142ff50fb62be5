"""The tests of hypotheses (``tests.yaml``): which figure shows that a cause is, or is not, behind a part of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from tools.knowledge.tables import table


@dataclass(frozen=True)
class HypothesisTest:
    """One figure and what it decides.

    Of ``place`` it is compared with the size of the part; of ``figure`` with ``supported_from`` and ``refuted_below``,
    in its own unit.
    """

    metric: str
    reason: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    of: Literal["place", "figure"] = "place"
    can: Literal["both", "support", "refute"] = "both"
    supported_from: float | None = None
    refuted_below: float | None = None
    parts: tuple[str, ...] = ()  # of the step; () is any
    when: tuple[str, ...] = ()  # what the run must hold

    def about(self, part: str) -> bool:
        """Return whether the figure is about this part; "" is the step as a whole, for a cause that was found there."""
        return not self.parts or not part or part in self.parts


@dataclass(frozen=True)
class CauseTests:
    """The tests of one cause, most decisive first, and what to record where none of them decides."""

    tests: tuple[HypothesisTest, ...]
    record: str
    source: Literal["monitor", "ranks", ""] = ""  # what would decide, where it was recorded already

    def of(self, part: str) -> tuple[HypothesisTest, ...]:
        """The tests that are about this part."""
        return tuple(each for each in self.tests if each.about(part))


@lru_cache(maxsize=1)
def hypothesis_tests() -> Mapping[str, CauseTests]:
    """All tests by cause; a cause that is missing has none."""
    lists = ("parts", "when")
    return {
        cause: CauseTests(
            tuple(
                HypothesisTest(**row | {name: tuple(row[name]) for name in lists if name in row})
                for row in entry["tests"]
            ),
            entry["record"],
            entry.get("source", ""),
        )
        for cause, entry in table("tests").items()
    }


def tests_of(cause: str) -> CauseTests:
    """The tests of a cause; none, and nothing to record, where the table does not have it."""
    return hypothesis_tests().get(cause, CauseTests((), ""))
