"""Carries a selection of cases out, several at once, and tells how far it has come."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from evals.carry_out import Conditions, carry_out, workers
from evals.case_schema import Case
from evals.models import ModelChoice
from evals.outcome import CaseResult
from evals.run_places import Places

Tell = Callable[[int, int, CaseResult], None]


def run_suite(
    cases: Sequence[Case], places: Places, model: ModelChoice | None, tell: Tell, at_once: int | None = None
) -> list[CaseResult]:
    """Results in the order of the cases. The cache is the suite's own: nothing stored before is taken for an answer."""
    with tempfile.TemporaryDirectory(prefix="hermes-eval-cache-") as cache:
        conditions = Conditions(places, Path(cache), model)
        count = min(workers(at_once), len(cases))
        if count <= 1:
            return _one_by_one(cases, conditions, tell)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=count, mp_context=context) as pool:
            running = {pool.submit(carry_out, case, conditions): case.id for case in cases}
            done: dict[str, CaseResult] = {}
            for future in as_completed(running):
                done[running[future]] = future.result()
                tell(len(done), len(cases), done[running[future]])
        return [done[case.id] for case in cases]


def _one_by_one(cases: Sequence[Case], conditions: Conditions, tell: Tell) -> list[CaseResult]:
    results: list[CaseResult] = []
    for case in cases:
        results.append(carry_out(case, conditions))
        tell(len(results), len(cases), results[-1])
    return results
