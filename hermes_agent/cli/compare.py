"""Show what changed between two runs, or why they cannot be compared."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

from hermes_agent.cli.arguments import add_selection_arguments, profile_of, request_of, settings
from hermes_agent.cli.terminal import note, print_json
from hermes_agent.locations.places import local, place
from tools.errors import ExitCode

SCHEMA = "hermes-dx/comparison/1"
NOISE_PCT = 3.0  # of the step before; smaller differences are counted, not listed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``compare``."""
    parser.add_argument("before", metavar="A", type=place, help="the run to compare with: trace file, folder or URL")
    parser.add_argument("after", metavar="B", type=place, help="the run to look at: trace file, folder or URL")
    add_selection_arguments(parser, baseline=False)
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    limit = "exit with 5 if the average step of B is more than PCT percent longer"
    parser.add_argument("--fail-on-regression", type=_percent, metavar="PCT", help=limit)


def run(args: argparse.Namespace) -> int:
    """Print the headline and the changes; raises NotComparableError (exit code 3) with the reasons against it."""
    from hermes_agent.evidence.citations import without_citations
    from hermes_agent.evidence.ledger import Ledger, evidence_record, render
    from hermes_agent.model.display import counted
    from tools.comparison.compare import compare
    from tools.views.profile import Profile

    args.run_paths = [args.after]
    request = request_of(args, settings())
    before = profile_of(replace(request, paths=(local(args.before, request.cache_dir),)))
    comparison = compare(Profile(before.run, before.thresholds, label="baseline"), profile_of(request))
    ledger = Ledger()
    headline = render(comparison.headline, ledger)
    changes = {change: render(change, ledger) for change in comparison.changes}
    before_ms, after_ms = comparison.step.before.value, comparison.step.after.value
    longer_pct = (after_ms / before_ms - 1.0) * 100.0
    if args.json:
        evidence = [evidence_record(entry.id, entry.fact).model_dump(mode="json") for entry in ledger.entries()]
        record = {"schema": SCHEMA, "headline": headline, "changes": list(changes.values()), "evidence": evidence}
        print_json({**record, "notes": list(comparison.notes), "step_change_pct": longer_pct})
    else:
        print(without_citations(headline))
        noise_ms = before_ms * NOISE_PCT / 100.0
        traced = (*comparison.parts, *comparison.kernels, *comparison.operators)
        small = {each.sentence() for each in traced if abs(each.delta) < noise_ms} & changes.keys()
        for text in (text for change, text in changes.items() if change not in small):
            print(f"- {without_citations(text)}")
        if small:
            differences = counted(len(small), "smaller difference")
            print(f"- {differences} below {noise_ms:.2f} ms ({NOISE_PCT:g} % of the step), listed with --json.")
        for each in comparison.notes:
            print(f"Not verified: {each}")
    if args.fail_on_regression is None or longer_pct <= args.fail_on_regression:
        return ExitCode.OK
    note(f"regression: the average step is {longer_pct:.1f} % longer, {args.fail_on_regression:g} % is allowed")
    return ExitCode.REGRESSION


def _percent(text: str) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage; write for example 5")
    return percent
