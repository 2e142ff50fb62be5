"""Arguments that several commands share, and what they are read into."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.locations.places import local, place
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.config.settings import Settings
    from hermes_agent.model.request import Request

MOST_RANKS = 1 << 20
RUN_HELP = "trace file, folder with traces or monitor records, or a URL of one (fsspec)"


def add_run_arguments(parser: argparse.ArgumentParser, *, baseline: bool = True) -> None:
    """The runs to read, and what to take of them."""
    parser.add_argument("run_paths", nargs="+", metavar="RUN", type=place, help=RUN_HELP)
    if baseline:
        add_baseline_argument(parser)
    add_selection_arguments(parser)


def add_baseline_argument(parser: argparse.ArgumentParser) -> None:
    """The run to compare with, once or more."""
    parser.add_argument(
        "--baseline", action="append", default=[], type=place, metavar="RUN", help="run to compare with"
    )


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Restrictions to steps and ranks, and the cache."""
    parser.add_argument("--steps", metavar="A:B", type=step_range, help="only the steps A to B, inclusive")
    parser.add_argument("--ranks", metavar="R[,R...]", type=rank_numbers, default=(), help="only these ranks")
    parser.add_argument("--no-cache", action="store_true", help="keep nothing and use nothing kept")


def step_range(text: str) -> tuple[int, int]:
    """``5:9`` or ``5``."""
    first, colon, last = text.partition(":")
    try:
        chosen = int(first), int(last if colon else first)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no range of steps; write A:B, for example 5:9") from None
    if chosen[0] > chosen[1]:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins; write the smaller step first")
    return chosen


def rank_numbers(text: str) -> tuple[int, ...]:
    """``0,3`` or ``0-3``."""
    chosen: set[int] = set()
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            span = range(int(first), int(last if dash else first) + 1)
            if not span or len(chosen) + len(span) > MOST_RANKS:
                raise ValueError
            chosen.update(span)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of ranks; write for example 0,3 or 0-3") from None
    return tuple(sorted(chosen))


def settings() -> Settings:
    """The configuration in force here."""
    from hermes_agent.config.settings import Settings

    return Settings.load(Path.cwd(), os.environ)


def request_of(args: argparse.Namespace, chosen: Settings) -> Request:
    """What the arguments ask to have diagnosed."""
    from hermes_agent.config.embedding import embedding_choice
    from hermes_agent.model.request import Request

    cache_dir = None if args.no_cache else chosen.cache_dir
    return Request(
        paths=tuple(local(each, cache_dir) for each in args.run_paths),
        baseline=tuple(local(each, cache_dir) for each in getattr(args, "baseline", ())),
        steps=args.steps,
        ranks=args.ranks,
        thresholds=chosen.thresholds,
        cache_dir=cache_dir,
        private_cases=chosen.cases.private_dir,
        embedding=embedding_choice(chosen, os.environ),
    )


def writable(path: Path) -> Path:
    """The path of a file to write, checked before any work is done."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file to write")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}; create it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path}: may not be written; choose another place or check the rights")
    return path
