"""Answers to recorded runs with all of their sources and with some of them, and the runs where more data did harm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

from evals.results.means import Mean, mean, means
from evals.suite.case_schema import Sources, Split
from evals.suite.origins import ORIGINS
from evals.suite.outcome import CaseResult, Standing
from evals.synthetic.spec import Record


class Standings(Record):
    """How many runs of one origin and split, healthy or faulty, are answered how by these sources."""

    origin: str
    split: Split
    sources: Sources
    healthy: bool
    counts: dict[Standing, int]
    right_leads: int = 0  # of ``lead`` those whose largest lead has a right cause among its first candidates

    @property
    def runs(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    @property
    def inconclusive(self) -> int:
        """Those that are neither answered nor refused and have no right lead."""
        return self.counts["lead"] + self.counts["no_lead"] - self.right_leads


class Contradiction(Record):
    """A run that is answered right by some of its sources and wrong by others; ``given`` are some of them."""

    run: str
    origin: str
    given: Sources
    wrong_with: Literal["more data", "less data"]


class LeadScores(Record):
    """Scores of leads over the runs of one origin by these sources; a score is absent where no case asks for it."""

    origin: str
    sources: Sources
    scores: dict[str, Mean]


class Sourced(Record):
    """The whole of it. ``agreement``: of the pairs (everything, some of its sources) with a right answer, those
    without a wrong one, by origin."""

    standings: list[Standings]
    agreement: dict[str, Mean]
    contradictions: list[Contradiction]
    leads: list[LeadScores]


def by_sources(results: Sequence[CaseResult]) -> Sourced:
    """Count the answers of all runs that were judged with their sources removed."""
    judged = [r for r in results if r.tags.run and r.standing]
    pairs = _pairs(judged)
    agreement = {}
    for source, origin in ORIGINS.items():
        known = [whole.standing != part.standing for whole, part in pairs if whole.tags.source == source]
        if found := mean([float(not differ) for differ in known]):
            agreement[origin] = found
    wrong = [(whole, part) for whole, part in pairs if whole.standing != part.standing]
    return Sourced(
        standings=_standings(judged),
        agreement=agreement,
        contradictions=[
            Contradiction(
                run=whole.id,
                origin=ORIGINS[whole.tags.source],
                given=part.tags.sources,
                wrong_with="more data" if whole.standing == "wrong" else "less data",
            )
            for whole, part in wrong
        ],
        leads=_leads(results),
    )


def _leads(results: Sequence[CaseResult]) -> list[LeadScores]:
    found = []
    for source, origin in ORIGINS.items():
        for sources in get_args(Sources):
            chosen = [r for r in results if (r.tags.source, r.tags.sources) == (source, sources)]
            scores = {name: value for name, value in means(chosen).items() if name.startswith("lead_")}
            found += [LeadScores(origin=origin, sources=sources, scores=scores)] if scores else []
    return found


def _pairs(judged: Sequence[CaseResult]) -> list[tuple[CaseResult, CaseResult]]:
    """Of each run the answers with everything and with some of its sources, both definite and one of them right."""
    whole = {r.id: r for r in judged if r.tags.sources == "all"}
    parts = [(whole[r.tags.run], r) for r in judged if r.tags.sources != "all" and r.tags.run in whole]
    return [pair for pair in parts if {each.standing for each in pair} in ({"right"}, {"right", "wrong"})]


def _standings(judged: Sequence[CaseResult]) -> list[Standings]:
    found = []
    for healthy in (False, True):
        for source, origin in ORIGINS.items():
            for split in get_args(Split):
                for sources in get_args(Sources):
                    chosen = [
                        r
                        for r in judged
                        if (r.tags.source, r.tags.split, r.tags.sources) == (source, split, sources)
                        and (r.tags.kind == "healthy") is healthy
                    ]
                    fields = {"origin": origin, "split": split, "sources": sources, "healthy": healthy}
                    found += [Standings.model_validate({**fields, **_counts(chosen)})] if chosen else []
    return found


def _counts(results: Sequence[CaseResult]) -> dict[str, object]:
    counts = Counter(r.standing for r in results)
    right = sum(r.standing == "lead" and r.scores.get("lead_candidate") == 1.0 for r in results)
    return {"counts": {each: counts[each] for each in get_args(Standing)}, "right_leads": right}


class SourceRow(Record):
    """The answers to the runs of one origin and split by these sources, faulty and healthy ones next to each other."""

    sources: Sources
    faulty: Standings | None
    healthy: Standings | None

    @property
    def runs(self) -> int:
        """All runs of the row."""
        return sum(each.runs for each in (self.faulty, self.healthy) if each)

    @property
    def wrong(self) -> int:
        """Those that are answered wrong."""
        return sum(each.counts["wrong"] for each in (self.faulty, self.healthy) if each)


def source_rows(standings: Sequence[Standings], origin: str, split: Split) -> list[SourceRow]:
    """One row for each selection of sources, the one with the largest share of wrong answers first."""
    rows = []
    for sources in get_args(Sources):
        found = {s.healthy: s for s in standings if (s.origin, s.split, s.sources) == (origin, split, sources)}
        if found:
            rows.append(SourceRow(sources=sources, faulty=found.get(False), healthy=found.get(True)))
    return sorted(rows, key=lambda row: -row.wrong / row.runs)
