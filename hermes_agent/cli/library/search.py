"""``hermes-dx cases search``: cases like a description, best first, each with what made it similar."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import settings
from hermes_agent.cli.library.filters import add_filters, chosen_cases, is_filtered, library
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from case_library.retrieval.query import CaseHit, CaseQuery
    from hermes_agent.config.settings import Settings

HELP = "find cases like a description, best first"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``cases search``."""
    parser.add_argument("query", nargs="+", metavar="QUERY", help="what is seen, in words")
    parser.add_argument("--limit", type=_limit, default=5, metavar="N", help="at most N cases (5)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    group = parser.add_argument_group("what is known besides", "orders the cases, and each says what it contradicts")
    group.add_argument("--suspect", action="append", metavar="CAUSE", help="a cause that is suspected; may be repeated")
    group.add_argument("--mechanism", action="append", metavar="NAME", help="a mechanism of it; may be repeated")
    group.add_argument("--signal", action="append", metavar="TEXT", help="a signal that was seen; may be repeated")
    add_filters(parser)


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of cases; choose 1 to 1000")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Prints the hits, or on standard error why there are none."""
    from case_library.retrieval.recall import CaseIndex
    from hermes_agent.config.embedding import embedding_choice

    query = _query(args)
    chosen = settings()
    left_out = _left_out(args, chosen)
    with CaseIndex.open(
        cache_dir=chosen.cache_dir,
        private_folder=chosen.cases.private_dir,
        embedding=embedding_choice(chosen, os.environ),
    ) as index:
        recall = index.search(query, args.limit, without=left_out)
        for note in index.notes:
            print(f"hermes-dx: {note}", file=sys.stderr)
    if recall.abstained:
        print(f"hermes-dx: no case: {recall.abstained}", file=sys.stderr)
    if args.json:
        print(json.dumps([_row(hit) for hit in recall.hits], indent=2))
        return int(ExitCode.OK)
    for hit in recall.hits:
        print(_told(hit))
    return int(ExitCode.OK)


def _query(args: argparse.Namespace) -> CaseQuery:
    """What was asked; raises UsageError for a cause or mechanism that the taxonomy does not have."""
    from case_library.retrieval.query import CaseQuery
    from tools.knowledge.taxonomy import causes

    known = causes()
    mechanisms = sorted({name for cause in known.values() for name in cause.mechanisms})
    for kind, given, there in (("cause", args.suspect, list(known)), ("mechanism", args.mechanism, mechanisms)):
        for name in given or ():
            if name not in there:
                raise UsageError(f"there is no {kind} {name!r}; choose from {', '.join(there)}")
    return CaseQuery(
        text=" ".join(args.query),
        causes=tuple(args.suspect or ()),
        mechanisms=tuple(args.mechanism or ()),
        signals=tuple(args.signal or ()),
        framework=args.framework or "",
    )


def _left_out(args: argparse.Namespace, chosen: Settings) -> frozenset[str]:
    """The ids that the filters rule out."""
    if not is_filtered(args):
        return frozenset()
    cases = library(chosen)
    return frozenset(case.id for case in cases) - {case.id for case in chosen_cases(args, cases)}


def _row(hit: CaseHit) -> dict[str, object]:
    return {
        "id": hit.id,
        "title": hit.title,
        "url": hit.url,
        "cause": hit.cause,
        "family": hit.family,
        "score": hit.similarity,
        "why": hit.why,
        "shared_signals": list(hit.shared_signals),
        "conflicts": list(hit.conflicts),
        "private": hit.private,
    }


def _told(hit: CaseHit) -> str:
    mark = "  (private)" if hit.private else ""
    lines = [f"{hit.similarity:.2f}  {hit.id}  ({hit.family}: {hit.cause}){mark}", f"      {hit.title}"]
    lines += [f"      {hit.url}"] if hit.url else []
    lines.append(f"      {hit.why}")
    lines += [f"      signals in common: {'; '.join(hit.shared_signals)}"] if hit.shared_signals else []
    lines += [f"      speaks against it: {'; '.join(hit.conflicts)}"] if hit.conflicts else []
    return "\n".join(lines)
