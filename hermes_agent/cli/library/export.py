"""Print the cases as JSON, Markdown or CSV."""

from __future__ import annotations

import argparse

from hermes_agent.cli.arguments import settings
from hermes_agent.cli.library.filters import add_filters, chosen_cases, library
from hermes_agent.cli.terminal import note
from tools.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``cases export``."""
    parser.add_argument("--format", choices=("json", "md", "csv"), default="json", help="form of the output (json)")
    parser.add_argument("--private", action="store_true", help="your private cases as well; they leave your folder")
    add_filters(parser)


def run(args: argparse.Namespace) -> int:
    """Write the cases that pass the filters to standard output."""
    from case_library.export import export
    from hermes_agent.model.display import counted

    cases = chosen_cases(args, library(settings()))
    wanted = [case for case in cases if args.private or not case.private]
    if len(wanted) < len(cases):
        note(f"{counted(len(cases) - len(wanted), 'private case')} left out; --private exports them too")
    print(export(wanted, args.format), end="")
    return ExitCode.OK
