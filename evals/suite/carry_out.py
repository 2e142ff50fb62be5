"""Carries one case out and scores it."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from evals.scorers.gains import gain, only_cause
from evals.scorers.misses import misses
from evals.scorers.registry import score
from evals.scorers.standing import standing
from evals.scorers.two_causes import shared_saving
from evals.suite.case_schema import Case
from evals.suite.models import AnswerSource, together
from evals.suite.observations import present
from evals.suite.outcome import CaseResult, NamedCause, Outcome, Refusal
from evals.suite.run_places import Places, check_label, locate, missing_folder
from hermes_agent.config.settings import Settings
from hermes_agent.model.contract import check_contract
from hermes_agent.model.request import Request
from hermes_agent.session import Session
from hermes_agent.workflow.diagnose import diagnose
from tools.errors import HermesError, InputError, NotComparableError

NAMED = 5  # causes kept in the saved result
SAVED = {"cause", "mechanism", "confidence"}  # of each


@dataclass(frozen=True)
class Conditions:
    """Conditions of all cases of a suite."""

    places: Places
    cache_dir: Path
    model: AnswerSource | None = None


def carry_out(case: Case, conditions: Conditions) -> CaseResult:
    """The scored result of a case; ``skipped`` without its optional folder, ``failed`` when it cannot be done."""
    reason = missing_folder(case, conditions.places)
    if reason:
        return CaseResult(id=case.id, tags=case.tags, status="skipped", reason=reason)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="hermes-eval-") as scratch:
        try:
            result = _carried_out(case, conditions, Path(scratch))
        except Exception as error:  # the boundary of one case: a defect fails this case, not the suite
            known = isinstance(error, HermesError)
            reason = str(error) if known else f"internal error, {type(error).__name__}: {error}"
            return CaseResult(id=case.id, tags=case.tags, status="failed", reason=reason)
    return result.model_copy(update={"seconds": round(time.perf_counter() - begun, 2)})


def _carried_out(case: Case, conditions: Conditions, scratch: Path) -> CaseResult:
    located = locate(case.run, conditions.places, scratch / "run")
    baseline = () if case.baseline is None else (locate(case.baseline, conditions.places, scratch / "baseline").path,)
    request = Request(paths=(located.path,), baseline=baseline, cache_dir=conditions.cache_dir)
    measured = case.measured or located.measured
    check_label(case, measured)
    try:
        diagnosis = diagnose(request, lambda _: None)
    except InputError as error:
        refusal: Refusal = "not_comparable" if isinstance(error, NotComparableError) else "unreadable"
        return _result(Outcome(case, None, refused=str(error), refusal=refusal))
    check_contract(diagnosis)
    answer = None
    if case.question is not None:  # always asked without a model: it is compared on the diagnosis's answer only
        with Session(request, Settings(cache_dir=conditions.cache_dir), diagnosis) as session:
            answer = session.ask(case.question, lambda _: None)
    held = present(located.path) if diagnosis.leads else frozenset()
    outcome = Outcome(case, diagnosis, answer, measured=measured, present=held)
    if (model := conditions.model) is None:
        return _result(outcome)
    # The result is that of the first attempt, with what all attempts took and how many had no miss.
    written = [model.written(case.id, diagnosis, attempt) for attempt in range(model.attempts)]
    results = [_result(replace(outcome, diagnosis=diagnosis)) for diagnosis, _ in written]
    use = together([use for _, use in written], sum(not result.misses for result in results))
    return results[0].model_copy(update={"model": use})


def _result(outcome: Outcome) -> CaseResult:
    scores, expected = score(outcome), outcome.case.expected
    measured = outcome.measured if only_cause(outcome.case) else None
    saving_pct = None if measured is None else round(100.0 * (1.0 - measured.after_ms / measured.before_ms), 2)
    predicted, missed = gain(outcome), misses(outcome, scores)
    if measured is not None and predicted is None and any(c.cause in expected.accepted for c in outcome.ranked):
        missed.append("gain: the right cause was named without a predicted gain")
    return CaseResult(
        id=outcome.case.id,
        tags=outcome.case.tags,
        status="scored",
        verdict=outcome.verdict or "refused",
        standing=standing(outcome),
        expected=[*expected.any_of, *expected.all_of],
        named=[
            NamedCause.model_validate(
                cause.model_dump(include=SAVED)
                | {
                    "impact_pct": round(cause.impact_pct, 2),
                    "ranks": cause.ranks[:64],
                }
            )
            for cause in outcome.ranked[:NAMED]
        ],
        scores={name: round(value, 4) for name, value in scores.items()},
        misses=missed,
        gain=predicted,
        shared=shared_saving(outcome),
        measured_saving_pct=saving_pct,
    )


def workers(wanted: int | None = None) -> int:
    """Cases that run at once."""
    return wanted or max(1, min(4, os.cpu_count() or 1))
