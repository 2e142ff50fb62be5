"""Carries out a selection of cases, several at once, and reports progress."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from evals.results.regression import against, read_results
from evals.results.report import report, write_report
from evals.results.summary import summarise
from evals.suite.carry_out import Conditions, carry_out, workers
from evals.suite.case_files import CASES, all_cases, load_cases, select
from evals.suite.case_schema import Case
from evals.suite.models import ModelChoice, model_choice
from evals.suite.outcome import CaseResult
from evals.suite.run_places import Places
from hermes_agent.evidence.printable import printable
from hermes_agent.version import VERSION


def run_suite(
    cases: Sequence[Case], places: Places, model: ModelChoice | None, at_once: int | None = None
) -> list[CaseResult]:
    """Results in the order of the cases. The cache is the suite's own: nothing stored before is taken for an answer."""
    with tempfile.TemporaryDirectory(prefix="hermes-eval-cache-") as cache:
        conditions = Conditions(places, Path(cache), model)
        count = min(workers(at_once), len(cases))
        if count <= 1:
            done = {}
            for case in cases:
                done[case.id] = carry_out(case, conditions)
                _progress(len(done), len(cases), done[case.id])
            return list(done.values())
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=count, mp_context=context) as pool:
            running = {pool.submit(carry_out, case, conditions): case.id for case in cases}
            done = {}
            for future in as_completed(running):
                done[running[future]] = future.result()
                _progress(len(done), len(cases), done[running[future]])
        return [done[case.id] for case in cases]


FAILED = 5  # exit code: a case failed, nothing ran, or something became worse
TEMPLATES = "templates (no model)"


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    selection: tuple[str, ...] = ()
    json: Path | None = None
    md: Path | None = None
    against: Path | None = None
    model: str | None = None
    attempts: int = 1
    cases: Path = CASES
    jobs: int | None = None


def run(options: Options) -> int:
    """Run the suite; return 0 when all chosen cases ran (some may be skipped) and nothing got worse, else ``FAILED``.

    Raises UsageError and InputError for an empty selection or a label outside the taxonomy.
    """
    before = None if options.against is None else read_results(options.against)
    places = Places.from_environment(os.environ)
    known = load_cases(options.cases) if options.cases != CASES else all_cases(places)
    chosen = select(known, options.selection)
    model = None if options.model is None else model_choice(options.model, options.attempts)
    begun = time.perf_counter()
    cases = run_suite(chosen, places, model, options.jobs)
    took = time.perf_counter() - begun
    at_once = workers(options.jobs)
    results = summarise(cases, options.selection, options.model or TEMPLATES, VERSION, took, at_once)
    regression = None if before is None else against(before, results)
    if options.json:
        options.json.write_text(results.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
    if options.md:
        write_report(results, options.md, command(options), regression)
    sys.stdout.write(report(results, command(options), regression))
    if not results.counts.get("scored"):
        print("hermes-dx: no case was carried out, and a suite that ran nothing has failed", file=sys.stderr)
        return FAILED
    return FAILED if results.counts.get("failed") or (regression and regression.worse) else 0


def command(options: Options) -> str:
    """The command line that gives these results again."""
    words = ["hermes-dx", "eval", *options.selection]
    for name in ("json", "md", "against", "model"):
        if value := getattr(options, name):
            words += [f"--{name}", value.name if isinstance(value, Path) else value]
    if options.attempts != 1:
        words += ["--attempts", str(options.attempts)]
    return shlex.join(words)


def _progress(done: int, total: int, result: CaseResult) -> None:
    """One line on a terminal that is rewritten and taken away at the end; nothing elsewhere."""
    if sys.stderr.isatty():
        mark = "ok" if result.status == "scored" and not result.misses else result.status
        text = f"[{done}/{total}] {printable(result.id)} {mark}" if done < total else ""
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
