"""The words a text may take its names from: what the diagnosis says of the run, and what is cited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hermes_agent.model.diagnosis import Diagnosis, EvidenceRecord


def told_of(diagnosis: Diagnosis, evidence: Iterable[EvidenceRecord], more: Iterable[str] = ()) -> str:
    """All that was told of the run: devices, layout, sentences, names in the evidence; no advice and no cases.

    ``more`` are texts told since, for example what tools answered.
    """
    run = diagnosis.run
    parts = [*run.devices, *(str(value) for value in run.layout.values()), run.step_origin, *run.notes]
    parts += [diagnosis.headline, *diagnosis.answer, *diagnosis.next_measurements, *diagnosis.notes]
    for cause in diagnosis.causes:
        parts += [cause.cause, cause.mechanism or "", cause.claim, *cause.details, *cause.against, *cause.symptoms]
        parts += [cause.disproved_by, cause.check]
    for check in diagnosis.checks:
        parts += [check.analyzer, check.reason, check.needs, *check.text]
    if diagnosis.comparison is not None:
        parts += [diagnosis.comparison.headline, *diagnosis.comparison.changes]
    parts += [f"{record.metric} {' '.join(str(value) for value in record.arguments.values())}" for record in evidence]
    return "\n".join([*parts, *more])


def told_with(cited: Iterable[str], known: str, quotes: Mapping[str, str]) -> str:
    """The words of the run and of the advice and cases that a sentence cites."""
    return "\n".join([known, *(quotes[name] for name in cited if name in quotes)])
