"""The fields of a case that a diagnosis fills, for a cause that a change has confirmed."""

from __future__ import annotations

from hermes_agent.evidence.citations import without_citations
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis
from hermes_agent.model.display import cause_heading, counted, on_ranks
from tools.knowledge.taxonomy import known_mechanism


def case_fields(diagnosis: Diagnosis, cause: CauseRecord) -> dict[str, object]:
    """Title, symptom, signals, cause, setting and how it was found, without citations."""
    ranks, step = diagnosis.run.ranks, diagnosis.step_time_ms
    took = f" The step took {step.median:.1f} ms (median of {step.steps})." if step else ""
    return {
        "title": cause_heading(cause.cause, cause.mechanism) + on_ranks(cause.ranks, ranks),
        "symptom": without_citations(cause.claim) + took,
        "signals": list(dict.fromkeys(cause.signals)),
        "signals_origin": "observed",
        "cause": cause.cause,
        "mechanism": known_mechanism(cause.mechanism) or "unknown",
        "hardware": ", ".join(dict.fromkeys(diagnosis.run.devices)) or "unknown",
        "scale": f"{counted(len(ranks), 'rank')} recorded",
        "diagnosis": " ".join([f"hermes-dx, check {cause.check}.", *map(without_citations, cause.details)]),
        "confidence": "high",
    }
