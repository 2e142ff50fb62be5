"""Lines of a diagnosis that every form of the report shares."""

from __future__ import annotations

from hermes_agent.model.diagnosis import CauseRecord, Diagnosis, SourceRecord
from hermes_agent.model.display import numbered, rank_list

MARKS = {"found": "!", "clean": "ok", "cannot_answer": "?"}
COLUMNS = ("wall", "compute", "exposed_communication", "exposed_memcpy", "data_wait", "host", "idle")


def all_ranks(diagnosis: Diagnosis) -> set[int]:
    """The traced ranks, those of the records where there is no trace."""
    recorded = diagnosis.run.recorded
    return set(diagnosis.run.ranks or (recorded.ranks if recorded else ()))


def cause_facts(cause: CauseRecord, diagnosis: Diagnosis) -> str:
    """Saving, share, ranks where not all, confidence and method of a cause."""
    where = "" if set(cause.ranks) == all_ranks(diagnosis) else f", {rank_list(cause.ranks)}"
    saving = f"{cause.impact_ms_per_step:.1f} ms, {cause.impact_pct:.1f} % of the step{where}"
    return f"{saving}; confidence {cause.confidence:.2f}, by {cause.method.replace('_', ' ')}"


def cause_lines(cause: CauseRecord) -> list[str]:
    """The lines below a cause's claim: details, symptoms, evidence against it, and what would disprove it."""
    return [
        *masked(cause),
        *cause.details,
        *(f"Symptom: {symptom}" for symptom in cause.symptoms),
        *(f"Against: {contrary}" for contrary in cause.against),
        *([f"Where: {cause.where}."] if cause.where else []),
        *([f"Disproved by: {cause.disproved_by}."] if cause.disproved_by else []),
    ]


def masked(cause: CauseRecord) -> list[str]:
    if not cause.masked_by:
        return []
    fixes = "that fix" if len(cause.masked_by) == 1 else "those fixes"
    return [f"Masked by {numbered('cause', cause.masked_by)}; saves {cause.then_ms_per_step:.1f} ms after {fixes}."]


def interval_meaning(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The meaning of the ranges in the advice; empty without any."""
    if not any(item.interval for item in diagnosis.advice):
        return ()
    return (f"Ranges are {diagnosis.interval_covers_pct:.0f} % prediction intervals.",)


def notes_of(diagnosis: Diagnosis) -> list[str]:
    """Notes on the files and on what was assumed, each once."""
    noted = [source for source in diagnosis.run.sources if source.note]
    partial = [f"{source.path}: {source.note}" for source in noted]
    others = [note for note in diagnosis.notes if not any(_repeats(source, note) for source in noted)]
    return list(dict.fromkeys([*partial, *others]))


def _repeats(source: SourceRecord, note: str) -> bool:
    """Return whether the note says no more of the file than the file's own note."""
    name = source.path.rsplit("/", 1)[-1]
    rest = note.removeprefix(name).lstrip(": ") if note.startswith(name) else ""
    return source.note in note or (bool(rest) and rest in source.note)
