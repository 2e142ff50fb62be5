"""``hermes-dx cases list``: the cases that pass the filters, one line each."""

from __future__ import annotations

import argparse
import json
import sys

from hermes_agent.cli.arguments import settings
from hermes_agent.cli.library.filters import add_filters, chosen_cases, library
from tools.errors import ExitCode

HELP = "list the cases, public and private"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``cases list``."""
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    add_filters(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the cases in the order of causes, then ids."""
    from hermes_agent.cli.terminal import aligned
    from hermes_agent.evidence.printable import printable

    cases = sorted(chosen_cases(args, library(settings())), key=lambda case: (case.family, case.cause, case.id))
    if args.json:
        rows = [
            {
                "id": case.id,
                "title": case.title,
                "url": case.source.url,
                "cause": case.cause,
                "family": case.family,
                "confidence": case.confidence,
                "year": case.source.year,
                "private": case.private,
            }
            for case in cases
        ]
        print(json.dumps(rows, indent=2))
        return int(ExitCode.OK)
    table = [
        (
            case.cause,
            case.id,
            case.confidence,
            str(case.source.year or "-"),
            f"(private) {printable(case.title)}" if case.private else printable(case.title),
        )
        for case in cases
    ]
    if table:
        print(aligned(("cause", "id", "confidence", "year", "title"), table, left=5))
    print(f"hermes-dx: {len(cases)} case(s), {sum(case.private for case in cases)} private", file=sys.stderr)
    return int(ExitCode.OK)
