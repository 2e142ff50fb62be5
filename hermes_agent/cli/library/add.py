"""Add a case to your private folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from case_library.draft import objections, private_case, store, written
from case_library.library import CaseError, read_case_bytes, read_mapping
from hermes_agent.cli.arguments import latest_diagnosis, settings
from hermes_agent.cli.library.filters import library
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hermes_agent.config.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``cases add``."""
    origin = parser.add_mutually_exclusive_group()
    origin.add_argument("--file", type=Path, metavar="DRAFT", help="take all fields from this YAML file, ask nothing")
    last = "take a confirmed cause from the last diagnosis made in this folder"
    origin.add_argument("--from-diagnosis", action="store_true", help=last)


def run(args: argparse.Namespace) -> int:
    """Check the case and write it; print the file's path."""
    chosen = settings()
    folder = chosen.cases.private_dir
    if folder is None:
        raise UsageError("no folder for private cases is set; name one in cases.private_dir or HERMES_DX_CASES_DIR")
    if args.file is not None:
        draft, where = read_mapping(args.file, read_case_bytes(args.file)), str(args.file)
    else:
        draft, where = _asked(chosen, args.from_diagnosis), "the answers"
    known = library(chosen)
    case = private_case(draft, where, {each.id for each in known})
    if faults := objections(case, known):
        more = ""
        if args.file is None:  # so that the answers are not lost
            print(written(case), end="")
            more = " The draft is on standard output: fix it and pass it with --file."
        raise CaseError(f"The case was not added. {' '.join(faults)}{more}")
    print(store(case, folder))
    return ExitCode.OK


def _asked(chosen: Settings, from_diagnosis: bool) -> dict[str, object]:
    from hermes_agent.cli.library.questionnaire import Questionnaire, confirmed_fields

    if not from_diagnosis:
        return Questionnaire(ask, {}).draft()
    _, diagnosis = latest_diagnosis(chosen, "diagnose the run first: hermes-dx diagnose RUN")
    return Questionnaire(ask, confirmed_fields(diagnosis, ask)).draft()


def ask(question: str) -> str:
    """Show a question on standard error and read a line of standard input; raises UsageError at its end."""
    from hermes_agent.evidence.printable import printable

    print("\n".join(map(printable, question.split("\n"))), file=sys.stderr, end="", flush=True)
    line = sys.stdin.readline()
    if not line:
        raise UsageError("the answers ended before the case was complete; use --file DRAFT in scripts")
    return line.rstrip("\n")
