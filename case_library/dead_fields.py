"""Fields of a case that carry nothing: they pass the schema and tell a reader no more than their absence would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from case_library.schema import Case

TELLING = ("title", "symptom", "diagnosis", "optimization", "effect")
SAYS_NOTHING = re.compile(r"\W*(unknown|unclear|none|nothing|n/?a|tbd|todo|no)?\W*", re.IGNORECASE)
THREAD = re.compile(r"https://github\.com/(?P<repo>[^/]+/[^/]+)/(?:issues|pull|discussions)/(?P<number>\d+)")


def dead_fields(case: Case) -> Iterator[str]:
    """One sentence for each field that says nothing, says what another said, or contradicts the address."""
    for name in TELLING:
        if SAYS_NOTHING.fullmatch(getattr(case, name)):
            yield f"{case.id}: {name} says nothing ({getattr(case, name)!r}); say what was not seen."
    yield from _told_twice(case)
    setting = case.setting
    if all(map(SAYS_NOTHING.fullmatch, (setting.framework, setting.hardware, setting.scale, setting.model))):
        yield f"{case.id}: nothing is known of the setting; give at least the framework or the hardware."
    yield from _other_thread(case)


def _told_twice(case: Case) -> Iterator[str]:
    first: dict[str, str] = {}
    for name, text in [
        *((name, getattr(case, name)) for name in TELLING),
        *(("signals", each) for each in case.signals),
    ]:
        words = " ".join(text.casefold().split())
        if words in first:
            yield f"{case.id}: {name} repeats {first[words]} ({text!r}); say it once."
        first.setdefault(words, name)


def _other_thread(case: Case) -> Iterator[str]:
    source = case.source
    match = THREAD.match(source.url)
    if match is None:
        return
    if source.repo is not None and source.repo.lower() != match["repo"].lower():
        yield f"{case.id}: source.repo is {source.repo}, the address names {match['repo']}; make them agree."
    if source.number is not None and source.number != int(match["number"]):
        yield f"{case.id}: source.number is {source.number}, the address names {match['number']}; make them agree."
