"""``hermes-dx cases``: search, read and check the library of public cases."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import settings
from tools.errors import ExitCode

if TYPE_CHECKING:
    from case_library.query import CaseHit

NAME = "cases"
HELP = "search, read and check the library of public cases"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the actions of ``cases`` and their arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    search = actions.add_parser("search", help="find cases like a description, best first")
    search.add_argument("query", nargs="+", metavar="QUERY", help="what is seen, in words")
    search.add_argument("--limit", type=_limit, default=5, metavar="N", help="at most N cases (5)")
    search.add_argument("--json", action="store_true", help="print the rows as JSON")
    search.set_defaults(action=_search)
    show = actions.add_parser("show", help="print one case")
    show.add_argument("id", metavar="ID", help="id of the case, as search prints it")
    show.add_argument("--json", action="store_true", help="print the case as JSON")
    show.set_defaults(action=_show)
    check = actions.add_parser("check", help="check the case files")
    check.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="another folder than the bundled one")
    check.set_defaults(action=_check)


def run(args: argparse.Namespace) -> int:
    """Carries out one action."""
    code: int = args.action(args)
    return code


def _limit(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of cases; choose 1 to 1000")
    return int(text)


def _search(args: argparse.Namespace) -> int:
    from case_library.query import CaseQuery
    from case_library.recall import CaseIndex

    with CaseIndex.open(cache_dir=settings().cache_dir) as index:
        for note in index.notes:
            print(f"hermes-dx: {note}", file=sys.stderr)
        recall = index.search(CaseQuery(text=" ".join(args.query)), args.limit)
    if recall.abstained:
        print(f"hermes-dx: no case: {recall.abstained}", file=sys.stderr)
    rows = [_row(hit) for hit in recall.hits]
    if args.json:
        print(json.dumps(rows, indent=2))
        return int(ExitCode.OK)
    for row in rows:
        print(f"{row['score']:.2f}  {row['id']}  ({row['family']}: {row['cause']})")
        print(f"      {row['title']}\n      {row['url']}\n      {row['why']}")
    return int(ExitCode.OK)


def _row(hit: CaseHit) -> dict[str, str | float]:
    return {
        "id": hit.id,
        "title": hit.title,
        "url": hit.url,
        "cause": hit.cause,
        "family": hit.family,
        "score": hit.similarity,
        "why": hit.why,
    }


def _show(args: argparse.Namespace) -> int:
    from hermes_agent.evidence.grounds import case_fields, library_case
    from tools.errors import UsageError

    case = library_case(args.id)
    if case is None:
        raise UsageError(f"there is no case {args.id!r} in the library; `hermes-dx cases search` finds those there are")
    if args.json:
        print(case.model_dump_json(indent=2))
        return int(ExitCode.OK)
    print(f"{case.id}: {case.title}")
    print(f"Cause: {case.cause}" + (f" ({case.mechanism})" if case.mechanism else "") + f", family {case.family}")
    for title, text in case_fields(case).items():
        print(f"{title}: {text}")
    return int(ExitCode.OK)


def _check(args: argparse.Namespace) -> int:
    from case_library.check import check_cases
    from case_library.library import BUNDLED_CASES, case_files

    folder = args.folder or BUNDLED_CASES
    problems = check_cases(folder)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return int(ExitCode.INPUT)
    print(f"{len(case_files(folder))} cases, all as they should be")
    return int(ExitCode.OK)
