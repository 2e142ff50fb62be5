"""``hermes-dx``: standard output is data, standard error is progress and diagnostics."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

COMMANDS = ("demo", "diagnose", "ask", "chat", "compare", "cases", "show", "steps", "ranks", "monitor", "eval", "env")
PACKAGES = ("tools", "case_library", "prompts")  # ours, by names that other projects use as well
SHADOWED = 2  # exit code: the command was started in a way that cannot work
LONGEST_REASON = 1000


class Command(Protocol):
    """One subcommand: a module with these names. It imports what is heavy inside ``run``."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the subcommand's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Carries it out and returns the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. Errors a person can mend are one sentence, without a traceback.

    Without ``argv`` it is the program itself, and takes the process's streams and interrupts into its hands.
    """
    foreign = foreign_packages()
    if foreign:
        from hermes_agent.evidence.printable import printable

        print(f"hermes-dx: {printable(foreign)}", file=sys.stderr)
        return SHADOWED
    if argv is None:
        from hermes_agent.cli.interrupt import leave_at_once
        from hermes_agent.cli.terminal import settle_streams

        settle_streams()
        leave_at_once()
    return _carried_out(build_parser().parse_args(argv))


def foreign_packages() -> str:
    """One sentence when a package of another project stands before one of ours, else nothing."""
    home = Path(__file__).resolve().parents[2]
    for name in PACKAGES:
        found = find_spec(name)
        origin = found.origin if found else None
        if origin is None or Path(origin).resolve().parent != home / name:
            return (
                f"another package called {name!r} ({origin or 'without files'}) hides the one that belongs to "
                "hermes-dx; start the command hermes-dx itself, from another folder and without that one on PYTHONPATH"
            )
    return ""


def _carried_out(args: argparse.Namespace) -> int:
    from hermes_agent.evidence.printable import printable
    from tools.errors import ExitCode, HermesError

    logging.basicConfig(level=logging.DEBUG if args.debug else logging.CRITICAL, stream=sys.stderr)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except HermesError as error:
        if args.debug:
            raise
        print(f"hermes-dx: {printable(str(error))}", file=sys.stderr)
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
        said = printable(f"{type(error).__name__}: {error}", LONGEST_REASON)
        print(f"hermes-dx: internal error, {said}; run again as hermes-dx --debug ... and report it", file=sys.stderr)
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
