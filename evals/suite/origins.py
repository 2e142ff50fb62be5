"""Origins of runs, which are never pooled, and the headline: the origin where the first cause is right least often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from evals.suite.case_schema import Source
from evals.suite.outcome import CaseResult
from evals.synthetic.spec import Record

ORIGINS: Mapping[Source, str] = MappingProxyType(
    {
        "lab": "lab",
        "habits": "other habits",
        "others": "runs of others",
        "real": "public traces",
        "synthetic": "generated runs",
    }
)


class OriginShare(Record):
    """Cases of one origin that ask for a score, and those that reach it."""

    origin: str
    reached: int
    cases: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.reached / self.cases


def by_origin(results: Sequence[CaseResult], score: str) -> list[OriginShare]:
    """The share of cases with the whole score in each origin that asks for it, lowest first."""
    shares = []
    for source, origin in ORIGINS.items():
        values = [r.scores[score] for r in results if r.tags.source == source and score in r.scores]
        if values:
            shares.append(OriginShare(origin=origin, reached=sum(value == 1.0 for value in values), cases=len(values)))
    return sorted(shares, key=lambda each: (each.share, -each.cases))
