"""Score the diagnosis on labelled cases and compare with saved results."""

from __future__ import annotations

import argparse
from pathlib import Path

from hermes_agent.cli.arguments import writable
from tools.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``eval``."""
    selection = "ids of cases (* and ? allowed) or tag=value, e.g. source=real"
    parser.add_argument("selection", nargs="*", metavar="SELECTION", help=selection)
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the results")
    parser.add_argument("--md", type=Path, metavar="FILE", help="write a report, and its pictures into the same folder")
    parser.add_argument("--against", type=Path, metavar="RESULTS", help="compare with saved results; fail when worse")
    parser.add_argument("--model", metavar="PROFILE", help="also with a model: live, record:FOLDER or replay:FOLDER")
    parser.add_argument(
        "--attempts", type=int, default=1, metavar="K", help="ask the model K times (pass^k); default %(default)s"
    )
    parser.add_argument("--cases", type=Path, metavar="FOLDER", help="case files other than the bundled ones")
    parser.add_argument("--jobs", type=int, metavar="N", help="cases to run at once; default: one per core, at most 4")


def run(args: argparse.Namespace) -> int:
    """Run the suite; exits with 5 when a case failed, nothing ran or something became worse."""
    from hermes_agent.cli.main import foreign_packages

    if foreign := foreign_packages(("evals",)):
        raise UsageError(foreign)
    from evals.suite import main as suite

    names = ("against", "model", "attempts", "jobs", "cases", "json", "md")
    options = {name: value for name in names if (value := getattr(args, name)) is not None}
    for target in options.keys() & {"json", "md"}:
        writable(options[target])
    return suite.run(suite.Options(selection=tuple(args.selection), **options))
