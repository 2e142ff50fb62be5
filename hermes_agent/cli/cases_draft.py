"""What a confirmed diagnosis already says of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.cli.cases_questionnaire import Ask
    from hermes_agent.config import Settings
    from hermes_agent.report.diagnosis import CauseRecord, Diagnosis


def latest_diagnosis(chosen: Settings) -> Diagnosis:
    """The diagnosis made last; raises UsageError when none is kept."""
    from hermes_agent.workflow import stored

    latest = stored.latest(chosen.cache_dir)
    diagnosis = stored.find(chosen.cache_dir, latest[0]) if latest else None
    if diagnosis is None:
        raise UsageError(f"no diagnosis is kept in {chosen.cache_dir}; diagnose the run first: hermes-dx diagnose RUN")
    return diagnosis


def confirmed_cause(diagnosis: Diagnosis, ask: Ask) -> CauseRecord:
    """The cause that turned out to be right, as the person says; raises UsageError when none did."""
    from hermes_agent.report.wording import cause_title

    causes = diagnosis.causes
    if not causes:
        raise UsageError("the latest diagnosis names no cause, so there is nothing to confirm; use `cases add` alone")
    lines = [f"The latest diagnosis: {diagnosis.headline}"]
    lines += [
        f"  {place}. {cause_title(cause.cause, cause.mechanism)}, {cause.impact_ms_per_step:.1f} ms per step"
        for place, cause in enumerate(causes, start=1)
    ]
    numbers = [str(place) for place in range(1, len(causes) + 1)]
    question = "\n".join([*lines, f"Which was confirmed by a change ({', '.join(numbers)}, or none): "])
    while True:
        answer = ask(question).strip()
        if answer in numbers:
            return causes[int(answer) - 1]
        if answer == "none":
            raise UsageError("no cause was confirmed, so no case was added; a case needs a cause that proved right")
        question = f"Write one of {', '.join(numbers)}, or none: "


def known_of(diagnosis: Diagnosis, cause: CauseRecord) -> dict[str, object]:
    """The fields of a case that the diagnosis fills; what was done and what it brought only a person knows."""
    from hermes_agent.evidence.numbers import without_citations
    from hermes_agent.questions.prose import capital
    from hermes_agent.report.wording import cause_title, on_ranks

    ranks = diagnosis.run.ranks
    claim = without_citations(cause.claim)
    step = diagnosis.step_time_ms
    known: dict[str, object] = {
        "title": capital(cause_title(cause.cause, cause.mechanism)) + on_ranks(cause.ranks, ranks),
        "symptom": f"{claim} The step took {step.median:.1f} ms (median of {step.steps}).",
        "signals": list(dict.fromkeys(cause.signals)),
        "signals_origin": "observed",
        "cause": cause.cause,
        "mechanism": cause.mechanism or "unknown",
        "hardware": ", ".join(dict.fromkeys(diagnosis.run.devices)) or "unknown",
        "scale": f"{len(ranks)} rank{'s' if len(ranks) > 1 else ''} recorded",
        "diagnosis": " ".join([f"hermes-dx, check {cause.check}.", *map(without_citations, cause.details)]),
        "confidence": "high",
    }
    return known
