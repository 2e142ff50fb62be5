"""Find cases like a description, best first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import embedding, number_between, settings
from hermes_agent.cli.library.filters import add_filters, check_known, chosen_cases, is_filtered, library
from hermes_agent.cli.terminal import note, print_json
from tools.errors import ExitCode

if TYPE_CHECKING:
    from case_library.retrieval.query import CaseHit, CaseQuery

FIELDS = ("id", "title", "url", "cause", "family", "score", "why", "shared_signals", "conflicts", "private")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``cases search``."""
    parser.add_argument("query", nargs="+", metavar="QUERY", help="the observation, in words")
    parser.add_argument(
        "--limit", type=number_between(1, 1000), default=5, metavar="N", help="at most N cases; default %(default)s"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    group = parser.add_argument_group("known facts", "they order the cases, and each case says what it contradicts")
    group.add_argument("--suspect", action="append", metavar="CAUSE", help="a suspected cause; may be repeated")
    group.add_argument("--mechanism", action="append", metavar="NAME", help="a mechanism of it; may be repeated")
    group.add_argument("--signal", action="append", metavar="TEXT", help="a signal that was seen; may be repeated")
    add_filters(parser)


def run(args: argparse.Namespace) -> int:
    """Print the hits, or on standard error why there are none."""
    from case_library.retrieval.recall import CaseIndex

    query = _query(args)
    chosen = settings()
    without: frozenset[str] = frozenset()
    if is_filtered(args):
        cases = library(chosen)
        without = frozenset(case.id for case in cases) - {case.id for case in chosen_cases(args, cases)}
    private = chosen.cases.private_dir
    with CaseIndex.open(cache_dir=chosen.cache_dir, private_folder=private, embedding=embedding(chosen)) as index:
        recall = index.search(query, args.limit, without=without)
        for each in (*index.notes, *index.cache_notes):
            note(each)
    if recall.abstained:
        note(f"no case: {recall.abstained}")
    if args.json:
        records = [{**vars(hit), "score": hit.similarity} for hit in recall.hits]
        print_json([{name: record[name] for name in FIELDS} for record in records])
    else:
        for hit in recall.hits:
            print(_text(hit))
    return ExitCode.OK


def _query(args: argparse.Namespace) -> CaseQuery:
    """The query; raises UsageError for a cause or mechanism that the taxonomy does not have."""
    from case_library.retrieval.query import CaseQuery
    from tools.knowledge.taxonomy import causes

    known = causes()
    check_known("cause", args.suspect, known)
    check_known("mechanism", args.mechanism, sorted({name for cause in known.values() for name in cause.mechanisms}))
    return CaseQuery(
        text=" ".join(args.query),
        causes=tuple(args.suspect or ()),
        mechanisms=tuple(args.mechanism or ()),
        signals=tuple(args.signal or ()),
        framework=args.framework or "",
    )


def _text(hit: CaseHit) -> str:
    mark = "  (private)" if hit.private else ""
    shared = f"signals in common: {'; '.join(hit.shared_signals)}" if hit.shared_signals else ""
    against = f"speaks against it: {'; '.join(hit.conflicts)}" if hit.conflicts else ""
    lines = (hit.title, hit.url, hit.why, shared, against)
    title = f"{hit.similarity:.2f}  {hit.id}  ({hit.family}: {hit.cause}){mark}"
    return "\n".join([title, *(f"      {line}" for line in lines if line)])
