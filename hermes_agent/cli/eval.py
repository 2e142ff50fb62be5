"""``hermes-dx eval``: scores of the answers on labelled cases."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from hermes_agent.cli.arguments import writable
from tools.errors import UsageError

NAME = "eval"
HELP = "score the diagnosis on labelled cases and compare with saved results"
HOME = Path(__file__).resolve().parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``eval``."""
    parser.add_argument(
        "selection",
        nargs="*",
        metavar="SELECTION",
        help="ids of cases (* and ? allowed) or tag=value, e.g. source=real",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the results")
    parser.add_argument("--md", type=Path, metavar="FILE", help="write a report, and its pictures into the same folder")
    parser.add_argument("--against", type=Path, metavar="RESULTS", help="compare with saved results; fail when worse")
    parser.add_argument(
        "--model", metavar="PROFILE", help="live, record:FOLDER or replay:FOLDER, compared with the templates"
    )
    parser.add_argument("--attempts", type=int, default=1, metavar="K", help="ask the model K times (pass^k)")
    parser.add_argument(
        "--cases", type=Path, metavar="FOLDER", help="folder with case files instead of the bundled ones"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="cases to run at once")


def run(args: argparse.Namespace) -> int:
    """Run the suite; exits with 5 when a case failed, nothing ran or something became worse."""
    suite = evaluation(HOME)
    names = ("against", "model", "attempts", "jobs", "cases", "json", "md")
    options = {name: value for name in names if (value := getattr(args, name)) is not None}
    for target in options.keys() & {"json", "md"}:
        writable(options[target])
    return int(suite.run(suite.Options(selection=tuple(args.selection), **options)))


def evaluation(home: Path) -> ModuleType:
    """Return the evaluation, which lies above this package and is looked up by name; UsageError if it is not ours."""
    found = importlib.util.find_spec("evals")
    origin = found.origin if found else None
    if origin is None or Path(origin).resolve().parent != home / "evals":
        raise UsageError(
            f"the package 'evals' of hermes-dx is missing or hidden by another one ({origin or 'not found'}); "
            "start hermes-dx from another folder or from a complete checkout"
        )
    return importlib.import_module("evals.main")
