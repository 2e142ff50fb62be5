"""All that is wrong with a folder of cases, for those who add to it: ``python -m case_library.check [FOLDER]``."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from case_library.library import BUNDLED_CASES, CaseError, case_files, parse_case, read_case_bytes
from case_library.words import terms

if TYPE_CHECKING:
    from case_library.schema import Case

SAME_TEXT = 0.5  # shared terms over all terms of two cases; the closest of the bundled cases share 0.31


def check_cases(folder: Path = BUNDLED_CASES) -> tuple[str, ...]:
    """Every fault of the case files in one sentence each, nothing if there is none; raises ``CaseError`` without cases.

    Looks at the schema and taxonomy, at files that are not read, at URLs used twice and at texts told twice.
    """
    problems = [
        f"{path} is not read; case files end in .yaml."
        for path in sorted(folder.iterdir() if folder.is_dir() else ())
        if path.suffix != ".yaml" and not path.name.startswith(".")
    ]
    cases: list[Case] = []
    for path in case_files(folder):
        try:
            cases.append(parse_case(path, read_case_bytes(path)))
        except CaseError as error:
            problems.append(str(error))
    return (*problems, *_shared_urls(cases), *_shared_texts(cases))


def _shared_urls(cases: Sequence[Case]) -> Iterator[str]:
    users: defaultdict[str, list[str]] = defaultdict(list)
    for case in cases:
        users[case.source.url.split("#")[0].rstrip("/").lower()].append(case.id)
    for url, ids in users.items():
        if len(ids) > 1:
            yield f"{' and '.join(ids)} have the same source {url}; keep one case for one source."


def _shared_texts(cases: Sequence[Case]) -> Iterator[str]:
    words = {case.id: frozenset(terms("\n".join([case.title, case.symptom, *case.signals]))) for case in cases}
    for one, other in combinations(words, 2):
        likeness = len(words[one] & words[other]) / max(len(words[one] | words[other]), 1)
        if likeness >= SAME_TEXT:
            yield f"{one} and {other} say nearly the same ({likeness:.0%} of their words); keep one of them."


def main() -> int:
    """Print the faults of the folder given, or of the bundled cases; 1 if there are any."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else BUNDLED_CASES
    try:
        problems = check_cases(folder)
    except CaseError as error:
        problems = (str(error),)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
