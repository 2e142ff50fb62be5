"""Scores of leads: whether there is one, its place and candidates, and the observation that decides."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from evals.suite.observations import asked
from evals.suite.outcome import Outcome
from hermes_agent.model.diagnosis import LeadRecord
from tools.knowledge.taxonomy import causes

CANDIDATES = 2  # of a lead, that a reader will look into
# Parts of a step in which the loss of a family may show. Ranks and candidates are asked apart.
PARTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "io": frozenset({"data_wait", "host"}),
        "cpu": frozenset({"host", "compute", "data_wait", "exposed_communication"}),
        "computation": frozenset({"compute", "exposed_communication"}),
        "communication": frozenset({"exposed_communication"}),
        "memory": frozenset({"host", "compute", "exposed_memcpy"}),
        "storage": frozenset({"host", "data_wait", "exposed_communication"}),
        "parallel": frozenset({"exposed_communication", "compute", "host", "idle"}),
    }
)


def lead_given(outcome: Outcome) -> float | None:
    """1 where an inconclusive answer to a faulty run has a lead."""
    if not outcome.case.expected.causes or outcome.diagnosis is None or outcome.verdict != "inconclusive":
        return None
    return float(bool(outcome.diagnosis.leads))


def lead_place(outcome: Outcome) -> float | None:
    """1 where the largest lead lies where the label says: part of the step, ranks, and some steps or all."""
    lead, expected = _first(outcome), outcome.case.expected
    if lead is None:
        return None
    families = {causes()[cause].family for cause in expected.accepted}
    right = any(lead.place.part in PARTS[family] for family in families)
    if expected.ranks is not None:
        right = right and bool(set(lead.place.ranks) & set(expected.ranks))
    if expected.some_steps:
        right = right and lead.place.steps != "every step"
    return float(right)


def lead_candidate(outcome: Outcome) -> float | None:
    """1 where a right cause is among the first two candidates of the largest lead."""
    lead = _first(outcome)
    if lead is None:
        return None
    return float(any(each.cause in outcome.case.expected.accepted for each in lead.candidates[:CANDIDATES]))


def lead_observation(outcome: Outcome) -> float | None:
    """Share of all leads whose deciding observation is not in the data already."""
    if outcome.diagnosis is None or not outcome.diagnosis.leads:
        return None
    new = [not asked(lead.decide_by) & outcome.present for lead in outcome.diagnosis.leads]
    return sum(new) / len(new)


def _first(outcome: Outcome) -> LeadRecord | None:
    """The largest lead; None without one, or where a right cause is asserted: then leads are about the rest."""
    expected, diagnosis = outcome.case.expected, outcome.diagnosis
    if not expected.causes or diagnosis is None or not diagnosis.leads:
        return None
    return None if {each.cause for each in outcome.asserted} & set(expected.accepted) else diagnosis.leads[0]
