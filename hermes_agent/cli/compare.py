"""``hermes-dx compare``: what changed between two runs, or why they cannot be compared."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

from hermes_agent.cli.arguments import add_selection_arguments, request_of, settings
from hermes_agent.locations.places import local, place

NAME = "compare"
HELP = "say what changed between two runs, or why they cannot be compared"

SCHEMA = "hermes-dx/comparison/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``compare``."""
    parser.add_argument("before", metavar="A", type=place, help="the run to compare with: trace file, folder or URL")
    parser.add_argument("after", metavar="B", type=place, help="the run to look at: trace file, folder or URL")
    add_selection_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the headline and the changes; raises NotComparableError (exit code 3) with the reasons against it."""
    from hermes_agent.cli.recorded import profile_of
    from hermes_agent.evidence.ledger import Ledger
    from hermes_agent.evidence.numbers import without_citations
    from hermes_agent.evidence.sentences import render
    from hermes_agent.report.records import evidence_record
    from tools.comparison.compare import compare
    from tools.views.profile import Profile

    args.run_paths = [args.after]
    request = request_of(args, settings())
    before = profile_of(replace(request, paths=(local(args.before, request.cache_dir),)))
    comparison = compare(Profile(before.run, before.thresholds, label="baseline"), profile_of(request))
    ledger = Ledger()
    headline = render(comparison.headline, ledger)
    changes = [render(change, ledger) for change in comparison.changes]
    if args.json:
        evidence = [evidence_record(entry.id, entry.fact).model_dump(mode="json") for entry in ledger.entries()]
        record = {"schema": SCHEMA, "headline": headline, "changes": changes, "evidence": evidence}
        print(json.dumps({**record, "notes": list(comparison.notes)}, indent=2))
        return 0
    print(without_citations(headline))
    for change in changes:
        print(f"- {without_citations(change)}")
    for note in comparison.notes:
        print(f"Not verified: {note}")
    return 0
