"""The cause that the headline names, which is not always the one that would save most."""

from __future__ import annotations

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis


def headline_cause(diagnosis: Diagnosis) -> CauseRecord | None:
    """The cause whose cost the headline cites; None where it names none, for example a lead."""
    costs = {row.id for row in diagnosis.evidence if row.metric == "cause_impact_ms"}
    cited = [name for name in cited_ids(diagnosis.headline) if name in costs]
    return next((cause for cause in diagnosis.causes if set(cited) & set(cause.evidence)), None)
