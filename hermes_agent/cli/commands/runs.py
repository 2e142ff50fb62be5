"""Register runs under a name, which every command, the MCP server and the Slack bot take."""

from __future__ import annotations

import argparse
from pathlib import Path

from hermes_agent.cli.arguments import settings
from hermes_agent.cli.terminal import aligned, note, print_json
from hermes_agent.locations.places import place
from tools.errors import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of ``runs`` and their arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="register a run", description="Register a run.")
    add.add_argument("name", metavar="NAME", help="letters, digits, dots, hyphens and underscores")
    add.add_argument("paths", nargs="+", metavar="PATH", type=place, help="trace file or folder of the run")
    add.add_argument("--replace", action="store_true", help="change a name that is registered already")
    add.set_defaults(action=_add)
    listing = actions.add_parser("list", help="list the registered runs", description="List the registered runs.")
    listing.add_argument("--json", action="store_true", help="print the rows as JSON")
    listing.set_defaults(action=_list)
    remove = actions.add_parser("remove", help="forget a name", description="Forget a name; the run's files stay.")
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(action=_remove)


def run(args: argparse.Namespace) -> int:
    """Run one action."""
    return int(args.action(args))


def _add(args: argparse.Namespace) -> int:
    from hermes_agent.registered_runs import RegisteredRuns

    paths = [each for each in args.paths if isinstance(each, Path)]
    if len(paths) < len(args.paths):
        raise UsageError("only files and folders of this machine can be registered; copy the run here first")
    added = RegisteredRuns.load(settings(no_llm=True)).add(args.name, paths, replace=args.replace)
    note(f"{added.name} stands for {', '.join(map(str, added.paths))}")
    return ExitCode.OK


def _list(args: argparse.Namespace) -> int:
    from hermes_agent.evidence.printable import printable
    from hermes_agent.model.display import counted
    from hermes_agent.registered_runs import RegisteredRuns

    runs = RegisteredRuns.load(settings(no_llm=True)).runs.values()
    if args.json:
        print_json([{"name": each.name, "paths": [*map(str, each.paths)], "found": not each.missing} for each in runs])
        return ExitCode.OK
    if runs:
        rows = [
            (each.name, "missing" if each.missing else "found", printable(", ".join(map(str, each.paths))))
            for each in runs
        ]
        print(aligned(("name", "files", "paths"), rows, left=3))
    note(counted(len(runs), "registered run"))
    return ExitCode.OK


def _remove(args: argparse.Namespace) -> int:
    from hermes_agent.registered_runs import RegisteredRuns

    removed = RegisteredRuns.load(settings(no_llm=True)).remove(args.name)
    note(f"{removed.name} is no longer registered; its files stay")
    return ExitCode.OK
