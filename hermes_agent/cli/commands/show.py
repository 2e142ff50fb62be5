"""Show the evidence, case or advice behind an id."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_run_arguments, latest_diagnosis, request_of, settings
from hermes_agent.cli.terminal import TerminalProgress, aligned, note, print_json
from hermes_agent.locations.places import origin
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hermes_agent.config.settings import Settings
    from hermes_agent.session import Session, Shown

SCHEMA = "hermes-dx/shown/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``show``."""
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="E7, C1 or A1 of a diagnosis, a check or cause, or a row such as e0.1520"
    )
    add_run_arguments(parser, "*")
    parser.epilog = "Without RUN, the id is one of the last diagnosis made in this folder; its run is printed."
    parser.add_argument("--json", action="store_true", help="print the record as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the record behind the id."""
    from hermes_agent.evidence.printable import printable

    if args.id is None:
        raise UsageError("type what to show: hermes-dx show E3 (or A1, C1, the name of a check or a cause)")
    with _session(args, settings()) as session:
        shown = session.show(args.id)
        places = (*session.request.paths, *session.request.baseline)
    copies = [f"{path} is a copy of {printable(origin(path))}" for path in places if origin(path)]
    shown = replace(shown, lines=(*shown.lines, *copies))
    if args.json:
        print_json({"schema": SCHEMA, **asdict(shown)})
    else:
        print(_text(shown))
    return ExitCode.OK


def _session(args: argparse.Namespace, chosen: Settings) -> Session:
    """The run named, or the last diagnosis made in this folder as it was stored: with the ids that were printed."""
    from hermes_agent.session import Session

    if args.run_paths:
        session = Session(request_of(args, chosen), chosen)
        with TerminalProgress() as progress:
            session.diagnose(progress)
        return session
    if args.steps or args.ranks or args.baseline:
        raise UsageError("--steps, --ranks and --baseline need a run; name it after the id")
    request, diagnosis = latest_diagnosis(chosen, f"name the run: hermes-dx show {args.id} RUN")
    for path in (*request.paths, *request.baseline):
        if origin(path) and not path.exists():
            raise UsageError(
                f"the copy of {origin(path)} that was diagnosed is gone; name the URL: hermes-dx show {args.id} URL"
            )
    runs = ", ".join(origin(path) or str(path) for path in request.paths)
    note(f"{args.id} of the last diagnosis made in this folder, of {runs}")
    return Session(replace(request, thresholds=chosen.thresholds), chosen, diagnosis)


def _text(shown: Shown) -> str:
    lines = [shown.title, *(f"  {line}" for line in shown.lines)]
    table = shown.table
    if table is not None and table.rows:
        part = f"first {len(table.rows)} of {table.total}" if len(table.rows) < table.total else f"all {table.total}"
        lines += ["", f"Rows behind it, {part}:", aligned(table.columns, table.rows)]
    elif table is not None:
        lines += ["", "There are no rows behind it: the figure counts what is absent."]
    return "\n".join(lines)
