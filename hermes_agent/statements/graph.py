"""The diagnosis as a graph: a cause at its ranks spends a part of the step, which shows as symptoms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.evidence.spent_parts import parts_of, ranks_of, spent_parts
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis, EvidenceRecord, HypothesisRecord
from hermes_agent.statements.context import CheckContext, claim_of, found_cause


@dataclass(frozen=True)
class Edge:
    """A cause of the diagnosis: its ranks, the parts of their steps that it spends, and the figures it shows in."""

    cause: CauseRecord
    ranks: frozenset[int]
    parts: frozenset[str]
    symptoms: frozenset[str]


def edge_of(diagnosis: Diagnosis, name: str | None) -> Edge | None:
    """The edge of a cause that was found, named with its mechanism or without."""
    found = found_cause(diagnosis, name)
    if found is None:
        return None
    ids = {*found.evidence, *found.evidence_against, *(name for text in found.symptoms for name in cited_ids(text))}
    ranks = ranks_of(found)
    return Edge(found, ranks, spent_parts(diagnosis, found, ranks), frozenset(ids))


def shows_in(record: EvidenceRecord, edge: Edge) -> bool:
    """Return whether a figure is a symptom of the edge: listed with it, or of a part that it spends at its ranks."""
    if record.id in edge.symptoms:
        return True
    part, rank = record.arguments.get("part"), record.arguments.get("rank")
    here = not isinstance(rank, int) or rank in edge.ranks or part == "exposed_communication"
    return here and (part is None or part in edge.parts)


def not_on_edge(edge: Edge, ranks: Iterable[int], part: str | None) -> Iterator[str]:
    """Yield why a claim about these ranks and this part is not the edge."""
    name = edge.cause.cause
    for rank in sorted({*ranks} - edge.ranks):
        yield f"{name} was found on rank {', '.join(map(str, sorted(edge.ranks)))}, not on rank {rank}"
    if part is not None and part not in edge.parts:
        yield f"{name} spends {' or '.join(sorted(edge.parts)) or 'no part of the step'}, not {part}"


def hypothesis_of(diagnosis: Diagnosis, name: str | None) -> HypothesisRecord | None:
    """The hypothesis about a cause, with its mechanism where one is named."""
    cause, _, mechanism = (name or "").partition(":")
    fitting = (h for h in diagnosis.hypotheses if h.cause == cause and mechanism in ("", h.mechanism))
    return next(fitting, None)


def untested(diagnosis: Diagnosis, name: str | None) -> HypothesisRecord | None:
    """The hypothesis about a cause where no test of it is possible, or none has decided."""
    found = hypothesis_of(diagnosis, name)
    return found if found is not None and found.status in ("untestable", "open") else None


def unfit_guess(context: CheckContext, name: str, ranks: Iterable[int], part: str | None) -> Iterator[str]:
    """Yield why a cause that was not found is not a guess that this run leaves open."""
    diagnosis = context.diagnosis
    cause = name.partition(":")[0]
    hypothesis = hypothesis_of(diagnosis, name)
    if claim_of(diagnosis, name) == "absent" or (hypothesis is not None and hypothesis.status == "refuted"):
        yield f"{name} was looked for and is refuted; it is no guess"
    missing = sorted({*ranks} - {*diagnosis.run.ranks})
    yield from (f"the run has no rank {rank}" for rank in missing)
    possible = parts_of(cause)
    if part is not None and part not in possible:
        yield f"{cause} spends {' or '.join(sorted(possible)) or 'no part of the step'}, not {part}"
    if hypothesis is None and not _is_candidate(diagnosis, cause):
        wanted = possible if part is None else {part}
        shares = [share for each in wanted for share in _shares_pct(diagnosis, each, [*ranks])]
        if max(shares, default=0.0) < context.thresholds["guess_part_pct"]:
            yield f"{name} has no noticeable part of this step to spend; it is no guess"


def _is_candidate(diagnosis: Diagnosis, cause: str) -> bool:
    return any(each.cause == cause for lead in diagnosis.leads for each in lead.candidates)


def _shares_pct(diagnosis: Diagnosis, part: str, ranks: list[int]) -> Iterator[float]:
    """The part's share of the mean step, on each of the ranks (all of them where none is named)."""
    for row in diagnosis.breakdown:
        if row.step is None and (not ranks or row.rank in ranks) and row.wall_ms > 0:
            yield 100.0 * float(getattr(row, f"{part}_ms")) / row.wall_ms
