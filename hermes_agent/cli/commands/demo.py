"""Diagnose the bundled recorded run, then offer the chat."""

from __future__ import annotations

import argparse
import sys

from hermes_agent.cli.arguments import request_of, settings
from tools.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``demo``."""
    parser.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every check with its figures")
    parser.add_argument("--no-chat", action="store_true", help="do not offer the chat")
    parser.set_defaults(steps=None, ranks=(), no_cache=False)


def run(args: argparse.Namespace) -> int:
    """Diagnose the bundled run; on a terminal, offer the chat."""
    from hermes_agent.cli.commands.diagnose import print_diagnosis
    from hermes_agent.cli.terminal import TerminalProgress
    from hermes_agent.demo.data import demo_run
    from hermes_agent.workflow.diagnose import diagnose

    args.run_paths = [demo_run()]
    chosen = settings()
    request = request_of(args, chosen)
    if not args.json:
        print("A data-parallel training on two CPU processes, recorded by this project's lab.\n")
    with TerminalProgress() as progress:
        diagnosis = diagnose(request, progress)
    print_diagnosis(diagnosis, as_json=args.json, verbose=args.verbose)
    if args.json or args.no_chat or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return ExitCode.OK
    if input("\nContinue in the chat? [Y/n] ").strip().lower() in ("", "y", "yes"):
        from hermes_agent.cli.commands.chat import open_chat, openings

        return open_chat(lambda: openings(request, chosen))
    return ExitCode.OK
