"""``hermes-dx show``: what stands behind an id, measured again where it is a figure."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import RUN_HELP, add_baseline_argument, add_selection_arguments, request_of, settings
from hermes_agent.locations.places import place
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.config.settings import Settings
    from hermes_agent.session import Session, Shown

NAME = "show"
HELP = "show the evidence, case or advice behind an id"

SCHEMA = "hermes-dx/shown/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``show``."""
    parser.add_argument("id", metavar="ID", help="E7, C1 or A1 of a diagnosis, or the name of a check or cause")
    parser.add_argument(
        "run_paths", nargs="*", metavar="RUN", type=place, help=f"{RUN_HELP}; without, the latest diagnosis"
    )
    add_baseline_argument(parser)
    add_selection_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the record as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints what stands behind the id."""
    with _session(args) as session:
        shown = _with_origin(session.show(args.id), session)
    if args.json:
        print(json.dumps({"schema": SCHEMA, **asdict(shown)}, indent=2))
    else:
        print(_text(shown))
    return 0


def _with_origin(shown: Shown, session: Session) -> Shown:
    """Also says from which URL the files were copied."""
    from hermes_agent.evidence.printable import printable
    from hermes_agent.locations.fetch import origin

    places = (*session.request.paths, *session.request.baseline)
    told = [f"{path} is a copy of {printable(origin(path))}" for path in places if origin(path)]
    return replace(shown, lines=(*shown.lines, *told))


def _session(args: argparse.Namespace) -> Session:
    from hermes_agent.cli.progress import TerminalProgress
    from hermes_agent.session import Session

    chosen = settings()
    if not args.run_paths:
        return _latest(args, chosen)
    session = Session(request_of(args, chosen), chosen)
    with TerminalProgress() as progress:
        session.diagnose(progress)
    return session


def _latest(args: argparse.Namespace, chosen: Settings) -> Session:
    """The diagnosis made last, as it was stored: its ids are those that were printed."""
    from hermes_agent.locations.fetch import origin
    from hermes_agent.session import Session
    from hermes_agent.workflow import stored

    if args.steps or args.ranks or args.baseline:
        raise UsageError("--steps, --ranks and --baseline need a run; name it after the id")
    latest = stored.latest(chosen.cache_dir)
    diagnosis = stored.find(chosen.cache_dir, latest[0]) if latest else None
    if latest is None or diagnosis is None:
        raise UsageError(f"no diagnosis is kept in {chosen.cache_dir}; name the run: hermes-dx show {args.id} RUN")
    for path in (*latest[1].paths, *latest[1].baseline):
        if origin(path) and not path.exists():
            raise UsageError(
                f"the copy of {origin(path)} that was diagnosed is gone; name the URL: hermes-dx show {args.id} URL"
            )
    return Session(replace(latest[1], thresholds=chosen.thresholds), chosen, diagnosis)


def _text(shown: Shown) -> str:
    lines = [shown.title, *(f"  {line}" for line in shown.lines)]
    table = shown.table
    if table is not None and table.rows:
        from hermes_agent.cli.terminal import aligned

        part = (
            f"the first {len(table.rows)} of {table.total}" if len(table.rows) < table.total else f"all {table.total}"
        )
        lines += ["", f"Rows behind it, {part}:", aligned(table.columns, table.rows)]
    elif table is not None:
        lines += ["", "There are no rows behind it: the figure counts what is absent."]
    return "\n".join(lines)
