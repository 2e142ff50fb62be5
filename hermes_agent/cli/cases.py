"""``hermes-dx cases``: search, read, add to, check and export the library of cases."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Protocol

NAME = "cases"
HELP = "search, read, add to, check and export the library of cases"
ACTIONS = ("search", "list", "show", "add", "check", "export")


class Action(Protocol):
    """One action: a module of ``library`` with these names. It imports heavy packages inside ``run``."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the action's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Run it and return the exit code."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of ``cases`` and their arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name in ACTIONS:
        action: Action = import_module(f"hermes_agent.cli.library.{name}")
        subparser = actions.add_parser(name, help=action.HELP, description=action.HELP)
        action.add_arguments(subparser)
        subparser.set_defaults(action=action.run)


def run(args: argparse.Namespace) -> int:
    """Run one action."""
    code: int = args.action(args)
    return code
