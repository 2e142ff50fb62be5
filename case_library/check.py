"""Faults of valid cases: fields that say nothing, sources and texts used twice, files that are not read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from case_library.library import BUNDLED_CASES, CaseError, case_files, load_private, parse_case, read_case_bytes
from case_library.retrieval.words import terms

if TYPE_CHECKING:
    from case_library.schema import Case

PROSE = ("title", "symptom", "diagnosis", "optimization", "effect")
SAYS_NOTHING = re.compile(r"\W*(unknown|unclear|none|nothing|n/?a|tbd|todo|no)?\W*", re.IGNORECASE)
THREAD = re.compile(r"https://github\.com/(?P<repo>[^/]+/[^/]+)/(?:issues|pull|discussions)/(?P<number>\d+)")


def dead_fields(case: Case) -> Iterator[str]:
    """Yield one sentence for each field that says nothing, repeats another, or contradicts the address."""
    prose, first = [(name, str(getattr(case, name))) for name in PROSE], dict[str, str]()
    for name, text in prose:
        if SAYS_NOTHING.fullmatch(text):
            yield f"{case.id}: {name} says nothing ({text!r}); say what was not seen."
    for name, text in (*prose, *(("signals", each) for each in case.signals)):
        words = " ".join(text.casefold().split())
        if words in first:
            yield f"{case.id}: {name} repeats {first[words]} ({text!r}); say it once."
        first.setdefault(words, name)
    if all(map(SAYS_NOTHING.fullmatch, dict(case.setting).values())):
        yield f"{case.id}: nothing is known of the setting; give at least the framework or the hardware."
    if match := THREAD.match(case.source.url):
        for name in ("repo", "number"):
            given = getattr(case.source, name)
            if given is not None and str(given).lower() != match[name].lower():
                yield f"{case.id}: source.{name} is {given}, the address names {match[name]}; make them agree."


SAME_TEXT = 0.5  # shared terms over all terms of two cases; the closest of the bundled cases share 0.31
CASE_FRAGMENT = "case-"  # an address may end in #case-... to name one of several cases of a publication


@dataclass(frozen=True)
class Checked:
    """The cases that could be read, in id order, and every fault in one sentence each."""

    cases: tuple[Case, ...]
    faults: tuple[str, ...]


def examine(folder: Path = BUNDLED_CASES, private_folder: Path | None = None) -> Checked:
    """Return the cases of a folder and of a team's private one, and every fault; raises ``CaseError`` without cases."""
    cases: list[Case] = []
    faults = [*_unread(folder), *(_unread(private_folder) if private_folder and private_folder.is_dir() else ())]
    for path in case_files(folder):
        try:
            cases.append(parse_case(path, read_case_bytes(path)))
        except CaseError as error:
            faults.append(str(error))
    if folder == BUNDLED_CASES:
        own = [case for case in cases if case.private or case.source.kind == "internal"]
        faults += [f"{case.id} is private; move it out of the public cases." for case in own]
        faults += [f"{case.id}: say in confidence_reason why." for case in cases if case.confidence_reason is None]
    private = load_private(private_folder, {case.id for case in cases})
    cases += private.cases
    faults += private.left_out
    return Checked(tuple(cases), (*faults, *faults_of(cases)))


def faults_of(cases: Sequence[Case]) -> tuple[str, ...]:
    """Faults of valid cases: fields that say nothing, sources and texts that two of them share."""
    dead = (fault for case in cases for fault in dead_fields(case))
    return (*dead, *_shared_sources(cases), *_shared_texts(cases))


def _unread(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        if path.suffix != ".yaml" and not path.name.startswith("."):
            yield f"{path} is not read; case files end in .yaml."


def _shared_sources(cases: Sequence[Case]) -> Iterator[str]:
    """A page has one case, or several whose addresses end in a ``#case-...`` of their own; other fragments are none."""
    users: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for case in cases:
        page, _, fragment = case.source.url.partition("#")
        users[page.rstrip("/").lower()][case.id] = fragment.lower() if fragment.startswith(CASE_FRAGMENT) else ""
    for page, fragments in users.items():
        distinct = all(fragments.values()) and len(set(fragments.values())) == len(fragments)
        if page and len(fragments) > 1 and not distinct:
            yield (
                f"{' and '.join(fragments)} have the same source {page}; keep one case for one source, "
                f"or end each address in a #{CASE_FRAGMENT}... of its own."
            )


def _shared_texts(cases: Sequence[Case]) -> Iterator[str]:
    words = {case.id: frozenset(terms("\n".join([case.title, case.symptom, *case.signals]))) for case in cases}
    for one, other in combinations(words, 2):
        likeness = len(words[one] & words[other]) / max(len(words[one] | words[other]), 1)
        if likeness >= SAME_TEXT:
            yield f"{one} and {other} say nearly the same ({likeness:.0%} of their words); keep one of them."
