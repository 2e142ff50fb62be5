"""Search, read, add to, check and export the library of cases."""

from __future__ import annotations

import argparse

from hermes_agent.cli.arguments import add_commands

ACTIONS = ("search", "list", "show", "add", "check", "export")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of ``cases`` and their arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add_commands(actions, "hermes_agent.cli.library", ACTIONS, "action")


def run(args: argparse.Namespace) -> int:
    """Run one action."""
    return int(args.action(args))
