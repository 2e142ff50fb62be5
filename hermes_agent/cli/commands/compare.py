"""Show what changed between two runs, or why they cannot be compared; a limit makes it a gate for CI."""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_selection_arguments, named_places, profile_of, request_of, settings
from hermes_agent.cli.terminal import note, print_json
from hermes_agent.locations.places import local, place
from tools.errors import ExitCode, NotComparableError

if TYPE_CHECKING:
    from hermes_agent.run_comparison import Gate, RunComparison

SCHEMA = "hermes-dx/comparison/1"
NOISE_PCT = 3.0  # of the step before; smaller differences are counted, not listed
JOB_SUMMARY = "GITHUB_STEP_SUMMARY"  # the file that a job of GitHub Actions shows on its page
EXIT_CODES = {"regression": ExitCode.REGRESSION, "not_assessable": ExitCode.INCONCLUSIVE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``compare``."""
    parser.add_argument("before", metavar="A", type=place, help="the run before: file, folder, URL or registered name")
    parser.add_argument("after", metavar="B", type=place, help="the run after, given the same way")
    add_selection_arguments(parser, baseline=False)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the comparison as JSON")
    form.add_argument("--md", action="store_true", help="print the comparison as Markdown")
    limit = "exit with 5 if the average step of B is more than PCT percent longer and that is beyond noise"
    parser.add_argument("--fail-on-regression", type=_percent, metavar="PCT", help=limit)
    parser.epilog = (
        "Exit codes with --fail-on-regression: 0 not longer than allowed, or within noise; 5 longer; 4 longer, but too "
        "few steps to separate it from noise; 6 not comparable. In GitHub Actions "
        f"(${JOB_SUMMARY}) the Markdown is added to the job's summary."
    )


def run(args: argparse.Namespace) -> int:
    """Print the headline and the changes; raises NotComparableError (exit code 6) with the reasons against it."""
    from hermes_agent.cli.comparison_markdown import comparison_markdown, refusal_markdown
    from hermes_agent.run_comparison import compared, judged

    args.run_paths = [args.after]
    chosen = settings()
    request = request_of(args, chosen)
    places = named_places([args.before], chosen)
    before = profile_of(replace(request, paths=tuple(local(each, request.cache_dir) for each in places)))
    in_ci = os.environ.get(JOB_SUMMARY, "") if args.md or args.fail_on_regression is not None else ""
    try:
        found = compared(before, profile_of(request))
    except NotComparableError as error:
        refusal = refusal_markdown(str(error))
        if args.md:
            print(refusal, end="")
        _add_to_summary(in_ci, refusal)
        raise
    gate = None if args.fail_on_regression is None else judged(found, args.fail_on_regression)
    markdown = comparison_markdown(found, gate) if args.md or in_ci else ""
    _add_to_summary(in_ci, markdown)
    if args.json:
        print_json(_record(found, gate))
    elif args.md:
        print(markdown, end="")
    else:
        _print(found)
    if gate is None:
        return ExitCode.OK
    note(f"{gate.outcome.replace('_', ' ')}: {gate.reason}")
    return EXIT_CODES.get(gate.outcome, ExitCode.OK)


def _record(found: RunComparison, gate: Gate | None) -> dict[str, object]:
    from hermes_agent.evidence.ledger import Ledger, evidence_record, render

    ledger = Ledger()
    headline = render(found.comparison.headline, ledger)
    changes = [render(change, ledger) for change in found.comparison.changes]
    evidence = [evidence_record(entry.id, entry.fact).model_dump(mode="json") for entry in ledger.entries()]
    interval = None if found.interval is None else [found.interval.low_pct, found.interval.high_pct]
    return {
        "schema": SCHEMA,
        "headline": headline,
        "changes": changes,
        "evidence": evidence,
        "notes": list(found.comparison.notes),
        "step_change_pct": found.change_pct,
        "step_change_interval_pct": interval,
        "comparability": {
            "score": found.comparison.comparability.score,
            "reasons": list(found.comparison.comparability.reasons),
        },
        "within_noise": found.against_noise.startswith("Within") if found.against_noise else None,
        "gate": None if gate is None else asdict(gate),
    }


def _print(found: RunComparison) -> None:
    from hermes_agent.model.display import counted

    comparison = found.comparison
    print(found.headline)
    for line in (found.against_noise, found.comparable):
        if line:
            print(line)
    noise_ms = comparison.step.before.value * NOISE_PCT / 100.0
    traced = (*comparison.parts, *comparison.kernels, *comparison.operators)
    small = {each.sentence() for each in traced if abs(each.delta) < noise_ms} & set(comparison.changes)
    for change, text in zip(comparison.changes, found.changes, strict=True):
        if change not in small:
            print(f"- {text}")
    if small:
        differences = counted(len(small), "smaller difference")
        print(f"- {differences} below {noise_ms:.2f} ms ({NOISE_PCT:g} % of the step), listed with --json.")
    for each in found.notes:
        print(each)


def _add_to_summary(path: str, markdown: str) -> None:
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{markdown}\n")
    except OSError as error:
        note(f"the job's summary {path} cannot be written: {error.strerror or error}")


def _percent(text: str) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage; write for example 5")
    return percent
