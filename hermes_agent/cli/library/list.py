"""List the cases, public and private."""

from __future__ import annotations

import argparse

from hermes_agent.cli.arguments import settings
from hermes_agent.cli.library.filters import add_filters, chosen_cases, library
from hermes_agent.cli.terminal import aligned, note, print_json
from tools.errors import ExitCode

FIELDS = ("id", "title", "url", "cause", "family", "confidence", "year", "private")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``cases list``."""
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    add_filters(parser)


def run(args: argparse.Namespace) -> int:
    """Print the cases in the order of causes, then ids."""
    from hermes_agent.evidence.printable import printable
    from hermes_agent.model.display import counted

    cases = sorted(chosen_cases(args, library(settings())), key=lambda case: (case.family, case.cause, case.id))
    if args.json:
        records = [{**dict(case), "url": case.source.url, "year": case.source.year} for case in cases]
        print_json([{name: record[name] for name in FIELDS} for record in records])
        return ExitCode.OK
    titles = [("(private) " if case.private else "") + printable(case.title) for case in cases]
    facts = [(case.cause, case.id, case.confidence, str(case.source.year or "-")) for case in cases]
    table = [(*fact, title) for fact, title in zip(facts, titles, strict=True)]
    if table:
        print(aligned(("cause", "id", "confidence", "year", "title"), table, left=5))
    note(f"{counted(len(cases), 'case')}, {sum(case.private for case in cases)} private")
    return ExitCode.OK
