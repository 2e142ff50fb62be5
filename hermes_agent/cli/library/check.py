"""Check the case files and count them by cause and confidence."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import settings
from hermes_agent.cli.terminal import aligned
from tools.errors import ExitCode

if TYPE_CHECKING:
    from case_library.check import Checked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``cases check``."""
    scope = "only the cases of this folder; without, the public ones, your private ones and the playbooks"
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help=scope)


def run(args: argparse.Namespace) -> int:
    """Print the counts; faults go to standard error, and the exit code is then 3."""
    from case_library.check import examine
    from case_library.playbook import faults

    if args.folder is not None:
        checked, pages = examine(args.folder), []
    else:
        checked = examine(private_folder=settings().cases.private_dir)
        pages = list(faults(case for case in checked.cases if not case.private))
    problems = [*checked.faults, *pages]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(_text(checked, len(problems)))
    return ExitCode.INPUT if problems else ExitCode.OK


def _text(checked: Checked, faults: int) -> str:
    from case_library.playbook import ENOUGH, tally
    from hermes_agent.model.display import counted
    from tools.knowledge.taxonomy import family_of

    columns, counts = ("high", "medium", "low", "cases", "confirmed", "private"), tally(checked.cases)
    cells = [(cause, family_of(cause), *(str(row[name]) for name in columns)) for cause, row in counts.items()]
    total = ("all", "", *(str(sum(row[name] for row in counts.values())) for name in columns))
    header = ("cause", "family", *columns)
    few = [cause for cause, row in counts.items() if row["confirmed"] < ENOUGH]
    undated = [case.id for case in checked.cases if case.source.year is None and not case.private]
    state = counted(faults, "fault") if faults else "no faults"
    lines = [aligned(header, [*cells, total], left=2), f"{counted(len(checked.cases), 'case')}, {state}"]
    lines += [f"fewer than {ENOUGH} confirmed cases: {', '.join(few)}"] if few else []
    lines += [f"year unknown: {len(undated)} ({', '.join(undated)})"] if undated else []
    return "\n".join(lines)
