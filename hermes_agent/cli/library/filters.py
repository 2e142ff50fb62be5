"""Filters on the command line, and the public and private cases that pass them."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from hermes_agent.cli.terminal import note
from tools.errors import UsageError

if TYPE_CHECKING:
    from case_library.schema import Case
    from hermes_agent.config.settings import Settings

FIRST_YEAR, LAST_YEAR = 2005, 2100
NAMES = ("cause", "family", "framework", "year", "confidence")


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Declare the filters; several words of one filter widen it, several filters narrow."""
    group = parser.add_argument_group("filters")
    group.add_argument("--cause", action="append", metavar="CAUSE", help="only cases of this cause; may be repeated")
    group.add_argument("--family", action="append", metavar="FAMILY", help="only causes of this family")
    group.add_argument("--framework", metavar="TEXT", help="only settings whose framework contains this")
    group.add_argument("--year", type=year_range, metavar="Y[:Z]", help="only cases of this year, or of years Y to Z")
    levels = ("high", "medium", "low")
    group.add_argument("--confidence", action="append", choices=levels, help="only this confidence; may be repeated")


def year_range(text: str) -> tuple[int, int]:
    """Read ``2024``, ``2020:2024``, ``2020:`` or ``:2024``."""
    first, colon, last = text.partition(":")
    try:
        low = int(first) if first else FIRST_YEAR
        high = (int(last) if last else LAST_YEAR) if colon else low
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a year; write for example 2024 or 2020:2024") from None
    if not FIRST_YEAR <= low <= high <= LAST_YEAR:
        raise argparse.ArgumentTypeError(f"{text!r}: write years from {FIRST_YEAR} on, the earlier one first")
    return low, high


def is_filtered(args: argparse.Namespace) -> bool:
    """Return whether any filter was given."""
    return any(getattr(args, name) is not None for name in NAMES)


def library(chosen: Settings) -> tuple[Case, ...]:
    """Return all cases, public and private; private files that were left out are reported on standard error."""
    from case_library.library import load_cases, load_private

    public = load_cases()
    own = load_private(chosen.cases.private_dir, {case.id for case in public})
    for each in own.left_out:
        note(each)
    return (*public, *own.cases)


def chosen_cases(args: argparse.Namespace, cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Return the cases that pass all filters; raises UsageError for a cause or family the taxonomy does not have."""
    from tools.knowledge.taxonomy import causes

    known, wanted = causes(), args
    check_known("cause", args.cause, known)
    check_known("family", args.family, dict.fromkeys(cause.family for cause in known.values()))
    low, high = args.year or (0, 0)
    return tuple(
        case
        for case in cases
        if (wanted.cause is None or case.cause in wanted.cause)
        and (wanted.family is None or case.family in wanted.family)
        and (wanted.framework is None or wanted.framework.lower() in case.setting.framework.lower())
        and (not low or (case.source.year is not None and low <= case.source.year <= high))
        and (wanted.confidence is None or case.confidence in wanted.confidence)
    )


def check_known(kind: str, given: Iterable[str] | None, known: Collection[str]) -> None:
    """Raise UsageError with the names there are for one that is unknown."""
    for name in given or ():
        if name not in known:
            raise UsageError(f"there is no {kind} {name!r}; choose from {', '.join(known)}")
