"""The evaluation as a command: choose cases, run them, print, save and compare."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from evals.carry_out import workers
from evals.case_files import CASES, all_cases, load_cases, select
from evals.markdown_report import write_report
from evals.models import model_choice
from evals.outcome import CaseResult
from evals.regression import against, read_results
from evals.run_places import Places
from evals.suite import run_suite
from evals.summary import Results, summarise
from evals.tables import text_report
from hermes_agent.evidence.printable import printable
from hermes_agent.version import VERSION

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
    told = _Progress()
    begun = time.perf_counter()
    cases = run_suite(chosen, places, model, told, options.jobs)
    took = time.perf_counter() - begun
    told.clear()
    at_once = workers(options.jobs)
    results = summarise(cases, options.selection, options.model or TEMPLATES, VERSION, took, at_once)
    regression = None if before is None else against(before, results)
    if options.json:
        options.json.write_text(results.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
    if options.md:
        write_report(results, options.md, command(options), regression)
    sys.stdout.write(text_report(results, regression))
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
