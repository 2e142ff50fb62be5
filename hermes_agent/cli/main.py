"""``hermes-dx``: standard output is data, standard error is progress and diagnostics."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from tools.errors import ExitCode, HermesError

COMMANDS = ("demo", "diagnose", "ask", "chat", "compare", "cases", "show", "steps", "ranks")


class Command(Protocol):
    """One subcommand: a module with these names. It imports what is heavy inside ``run``."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the subcommand's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Carries it out and returns the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. Errors a person can mend are one sentence, without a traceback."""
    parser = build_parser()
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.DEBUG if args.debug else logging.CRITICAL, stream=sys.stderr)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except HermesError as error:
        if args.debug:
            raise
        print(f"hermes-dx: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("hermes-dx: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except Exception as error:  # the outermost boundary: everything else is a defect of ours
        if args.debug:
            raise
        logging.getLogger("hermes_dx").debug("internal error", exc_info=True)
        print(
            f"hermes-dx: internal error, {type(error).__name__}: {error}; run again with --debug and report it",
            file=sys.stderr,
        )
        return int(ExitCode.INTERNAL)


def build_parser() -> argparse.ArgumentParser:
    """The parser with all subcommands."""
    parser = argparse.ArgumentParser(
        prog="hermes-dx",
        description="Says why deep-learning training is slow and what to change first, every figure traceable.",
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks and debug messages")
    parser.add_argument("--version", action="version", version=f"hermes-dx {_version()}")
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command: Command = import_module(f"hermes_agent.cli.{name}")
        subparser = subcommands.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def _version() -> str:
    from hermes_agent.version import VERSION

    return VERSION


if __name__ == "__main__":
    sys.exit(main())
