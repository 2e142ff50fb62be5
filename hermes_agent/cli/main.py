"""``hermes-dx``: standard output is data, standard error is progress and diagnostics."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from hermes_agent.version import VERSION

COMMANDS = (
    *("demo", "diagnose", "ask", "chat", "compare", "confirm", "cases", "show", "steps", "ranks"),
    *("plan", "whatif", "replay"),
    *("reduce", "operators", "kernels", "collectives", "tool", "monitor", "eval", "env"),
    *("runs", "mcp", "slack"),
    *("schema", "completion", "doctor", "cache"),
)
PACKAGES = ("tools", "case_library", "prompts")  # names that other projects use too: import them after the check
HOME = Path(__file__).resolve().parents[2]
SHADOWED = 2  # exit code: the command was started in a way that cannot work
LONGEST_REASON = 1000
# New objects between two searches for cycles. Imports and the reading of a trace make hundreds of thousands of objects
# that stay; Python's own 700 costs a seventh of the time to start.
GARBAGE_SEARCH_EVERY = 100_000
OWN_LOGS = ("hermes_dx", "hermes_agent")
EXIT_CODES = """exit codes:
  0    a diagnosis was made, or the command did its work
  1    internal error
  2    usage error
  3    a source cannot be read
  4    inconclusive or not answered, with --strict; or compare --fail-on-regression has too few steps to judge
  5    slower than compare --fail-on-regression allows, or a failed eval
  6    two runs cannot be compared
  130  interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; without ``argv`` as the program, with its streams and signals."""
    if foreign := foreign_packages():
        from hermes_agent.evidence.printable import printable

        print(f"hermes-dx: {printable(foreign)}", file=sys.stderr)
        return SHADOWED
    if argv is None:
        from hermes_agent.cli.terminal import leave_at_once, settle_streams

        settle_streams()
        leave_at_once()
        gc.set_threshold(GARBAGE_SEARCH_EVERY)
    words = sys.argv[1:] if argv is None else argv
    return _run(build_parser(named_command(words)).parse_args(words))


def foreign_packages(names: Sequence[str] = PACKAGES, home: Path = HOME) -> str:
    """Return one sentence if a package of another project hides one of ours, else nothing."""
    for name in names:
        found = find_spec(name)
        origin = found.origin if found else None
        if origin is None or Path(origin).resolve().parent != home / name:
            return (
                f"another package called {name!r} ({origin or 'without files'}) hides the one that belongs to "
                "hermes-dx; start the command hermes-dx itself, from another folder and without that one on PYTHONPATH"
            )
    return ""


def _run(args: argparse.Namespace) -> int:
    from hermes_agent.cli.terminal import DebugFormat, note, print_traceback
    from hermes_agent.locations.places import by_origin
    from tools.errors import ExitCode, HermesError

    # Messages of libraries below a warning repeat what they send and receive, also addresses with a password in them.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(DebugFormat(logging.BASIC_FORMAT))
    logging.basicConfig(level=logging.WARNING if args.debug else logging.CRITICAL, handlers=[handler])
    for name in OWN_LOGS:
        logging.getLogger(name).setLevel(logging.DEBUG if args.debug else logging.NOTSET)
    logging.captureWarnings(True)  # they name lines of source files: for --debug, not for a reader of the answer
    try:
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except HermesError as error:
        if args.debug:
            print_traceback()
        note(by_origin(str(error)))
        return error.exit_code
    except KeyboardInterrupt:
        note("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:  # the outermost boundary: everything else is a defect of ours
        if args.debug:
            print_traceback()
        reason = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
        note(f"internal error, {reason}; run again as hermes-dx --debug ... and report it")
        return ExitCode.INTERNAL


def named_command(words: Sequence[str]) -> str:
    """Return the command that the words begin with, after ``--debug``; "" where help or an error may list all."""
    first = next((word for word in words if word != "--debug"), "")
    return first if first in COMMANDS else ""


def build_parser(only: str = "") -> argparse.ArgumentParser:
    """Return the parser with all subcommands, or with one alone: the modules of the others are not imported."""
    from hermes_agent.cli.arguments import add_commands
    from hermes_agent.cli.command_parser import CommandParser

    parser = CommandParser(
        prog="hermes-dx",
        description="Shows why deep-learning training is slow and what to change first, every figure traceable.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks and debug messages")
    parser.add_argument("--version", action="version", version=f"hermes-dx {VERSION}")
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=CommandParser)
    add_commands(subcommands, "hermes_agent.cli.commands", (only,) if only else COMMANDS, "run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
