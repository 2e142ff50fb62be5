"""Carries a selection of cases out, several at once, and reports progress."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from evals.carry_out import Conditions, carry_out, workers
from evals.case_files import CASES, all_cases, load_cases, select
from evals.case_schema import Case
from evals.models import ModelChoice, model_choice
from evals.outcome import CaseResult
from evals.regression import against, read_results
from evals.report import report, write_report
from evals.run_places import Places
from evals.summary import Results, summarise
from hermes_agent.evidence.printable import printable
from hermes_agent.version import VERSION

Notify = Callable[[int, int, CaseResult], None]


def run_suite(
    cases: Sequence[Case], places: Places, model: ModelChoice | None, notify: Notify, at_once: int | None = None
) -> list[CaseResult]:
    """Results in the order of the cases. The cache is the suite's own: nothing stored before is taken for an answer."""
    with tempfile.TemporaryDirectory(prefix="hermes-eval-cache-") as cache:
        conditions = Conditions(places, Path(cache), model)
        count = min(workers(at_once), len(cases))
        if count <= 1:
            return _one_by_one(cases, conditions, notify)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=count, mp_context=context) as pool:
            running = {pool.submit(carry_out, case, conditions): case.id for case in cases}
            done: dict[str, CaseResult] = {}
            for future in as_completed(running):
                done[running[future]] = future.result()
                notify(len(done), len(cases), done[running[future]])
        return [done[case.id] for case in cases]


def _one_by_one(cases: Sequence[Case], conditions: Conditions, notify: Notify) -> list[CaseResult]:
    results: list[CaseResult] = []
    for case in cases:
        results.append(carry_out(case, conditions))
        notify(len(results), len(cases), results[-1])
    return results


FAILED = 5  # exit code: a case failed, nothing ran, or something became worse
TEMPLATES = "templates (no model)"


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    selection: tuple[str, ...] = ()
    json: Path | None = None
    md: Path | None = None
    against: Path | None = None
    model: str | None = None
    attempts: int = 1
    cases: Path = CASES
    jobs: int | None = None


def run(options: Options) -> int:
    """Runs the suite; 0 when all chosen cases ran (some may be skipped) and nothing became worse, else ``FAILED``.

    Raises UsageError and InputError for what was put wrongly: an empty selection, a label outside the taxonomy.
    """
    before = None if options.against is None else read_results(options.against)
    places = Places.from_environment(os.environ)
    known = load_cases(options.cases) if options.cases != CASES else all_cases(places.labs)
    chosen = select(known, options.selection)
    model = None if options.model is None else model_choice(options.model, options.attempts)
    progress = _Progress()
    begun = time.perf_counter()
    cases = run_suite(chosen, places, model, progress, options.jobs)
    took = time.perf_counter() - begun
    progress.clear()
    at_once = workers(options.jobs)
    results = summarise(cases, options.selection, options.model or TEMPLATES, VERSION, took, at_once)
    regression = None if before is None else against(before, results)
    if options.json:
        options.json.write_text(results.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
    if options.md:
        write_report(results, options.md, command(options), regression)
    sys.stdout.write(report(results, command(options), regression))
    return FAILED if _failed(results) or (regression and regression.worse) else 0


def command(options: Options) -> str:
    """The command line that gives these results again."""
    words = ["hermes-dx", "eval", *options.selection]
    for name in ("json", "md", "against", "model"):
        if value := getattr(options, name):
            words += [f"--{name}", value.name if isinstance(value, Path) else value]
    if options.attempts != 1:
        words += ["--attempts", str(options.attempts)]
    return shlex.join(words)


def _failed(results: Results) -> bool:
    failed, scored = results.counts.get("failed", 0), results.counts.get("scored", 0)
    if not scored:
        print("hermes-dx: no case was carried out, and a suite that ran nothing has failed", file=sys.stderr)
    return bool(failed) or not scored


class _Progress:
    """One line on a terminal that is rewritten; nothing elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()

    def __call__(self, done: int, total: int, result: CaseResult) -> None:
        if self._live:
            mark = "ok" if result.status == "scored" and not result.misses else result.status
            sys.stderr.write(f"\r\x1b[K[{done}/{total}] {printable(result.id)} {mark}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Takes the line away."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
