"""``hermes-dx demo``: a first answer, from a run that comes with the package."""

from __future__ import annotations

import argparse
import os
import sys

from hermes_agent.cli.arguments import settings

NAME = "demo"
HELP = "diagnose the bundled recorded run, then offer the chat"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``demo``."""
    parser.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
    parser.add_argument("--no-chat", action="store_true", help="do not offer the chat")


def run(args: argparse.Namespace) -> int:
    """Diagnoses the bundled run; on a terminal, offers to go on in the chat."""
    from hermes_agent.cli.diagnose import print_diagnosis
    from hermes_agent.cli.progress import TerminalProgress
    from hermes_agent.config.embedding import embedding_choice
    from hermes_agent.demo.data import demo_run
    from hermes_agent.model.request import Request
    from hermes_agent.workflow.diagnose import diagnose

    chosen = settings()
    request = Request(
        paths=(demo_run(),),
        thresholds=chosen.thresholds,
        cache_dir=chosen.cache_dir,
        private_cases=chosen.cases.private_dir,
        embedding=embedding_choice(chosen, os.environ),
    )
    if not args.json:
        print("A data-parallel training on two CPU processes, recorded by this project's lab.\n")
    with TerminalProgress() as progress:
        diagnosis = diagnose(request, progress)
    print_diagnosis(diagnosis, as_json=args.json)
    if args.json or args.no_chat or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return 0
    if input("\nGo on in the chat? [Y/n] ").strip().lower() in ("", "y", "yes"):
        from hermes_agent.cli.chat import open_chat

        return open_chat(request, chosen)
    return 0
