"""Compare the gain of a change with the predicted one, and draft a case from it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import RUN_HELP, add_selection_arguments, request_of, settings
from hermes_agent.cli.terminal import TerminalProgress, print_json
from hermes_agent.locations.places import local, place
from tools.errors import ExitCode, HermesError

if TYPE_CHECKING:
    from case_library.schema import Case
    from hermes_agent.config.settings import Settings
    from hermes_agent.confirm import Confirmation, RunOf

SCHEMA = "hermes-dx/confirmation/1"
DRAFTS = "drafts"  # next to the folder of private cases, which is searched


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``confirm``."""
    parser.add_argument("run_paths", nargs=1, metavar="RUN", type=place, help=RUN_HELP)
    parser.add_argument("advice", metavar="ADVICE", help="the advice that was followed, for example A1")
    parser.add_argument("after", metavar="AFTER_RUN", type=place, help="the run that was recorded after the change")
    add_selection_arguments(parser, baseline=False)
    parser.add_argument("--drafts", type=Path, metavar="FOLDER", help="folder for the drafted cases")
    parser.add_argument("--no-drafts", action="store_true", help="draft no cases")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Print measured against predicted gain; raises NotComparableError (exit code 6) with the reasons against it."""
    from hermes_agent.confirm import RunOf, confirm
    from hermes_agent.session import Session

    chosen = settings(no_llm=True)
    request = request_of(args, chosen)
    later = replace(request, paths=(local(args.after, request.cache_dir),))
    with Session(request, chosen) as first, Session(later, chosen) as second, TerminalProgress() as progress:
        before, after = (
            RunOf(each.diagnose(progress), each.profile(progress), each.request.paths[0]) for each in (first, second)
        )
        found = confirm(before, after, args.advice)
    lines = () if args.no_drafts else drafted(found, before, chosen, args.drafts)
    if args.json:
        print_json(record_of(found, lines))
    else:
        print("\n".join((*found.sentences, *lines)))
    return ExitCode.OK


def drafted(found: Confirmation, before: RunOf, chosen: Settings, folder: Path | None = None) -> tuple[str, ...]:
    """Write the drafts of a confirmed cause and say where they lie, or why not; nothing where none was confirmed."""
    from hermes_agent.confirm import drafts, store_drafts, stored_sentences

    if found.outcome != "confirmed":
        return ()
    private = chosen.cases.private_dir
    target = folder or (private.parent / DRAFTS if private is not None else None)
    if target is None:
        return ("No case was drafted, for want of a folder: name one with --drafts or set cases.private_dir.",)
    try:
        made = drafts(found, before, known_cases(chosen))
        return stored_sentences(made, store_drafts(made, target))
    except HermesError as error:
        return (f"No case was drafted: {str(error).rstrip('.')}.",)


def known_cases(chosen: Settings) -> list[Case]:
    """The public cases and the private ones that can be read."""
    from hermes_agent.cli.library.filters import library

    return list(library(chosen))


def record_of(found: Confirmation, lines: tuple[str, ...]) -> dict[str, object]:
    """The result as JSON."""
    figures = {"before_ms": found.before_ms, "after_ms": found.after_ms, "measured_speedup": found.measured}
    predicted = {"predicted_speedup": found.predicted, "interval": found.interval, "inside": found.inside}
    state = {"outcome": found.outcome, "cause_gone": found.gone, "text": [*found.sentences, *lines]}
    return {"schema": SCHEMA, "advice": found.advice.id, "cause": found.cause.cause, **figures, **predicted, **state}
