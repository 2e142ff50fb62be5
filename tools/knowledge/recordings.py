"""What can be recorded of a training, with the command, and the fewest recordings that answer what is open."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tools.knowledge.tables import table

MOST = 3  # commands that a reader is shown


@dataclass(frozen=True)
class Recording:
    """One recording: the command, what it adds, and the words by which checks ask for it."""

    id: str
    do: str
    shows: str
    words: re.Pattern[str]


@lru_cache(maxsize=1)
def recordings() -> dict[str, Recording]:
    """All recordings by id, the cheapest first."""
    return {
        name: Recording(name, entry["do"], entry["shows"], re.compile(entry["words"]))
        for name, entry in table("recordings").items()
    }


def recordings_for(need: str) -> tuple[str, ...]:
    """The recordings that would give what a check says it needs, the cheapest first."""
    return tuple(name for name, each in recordings().items() if each.words.search(need))


@dataclass(frozen=True)
class RecordNext:
    """One recording to make next, and the checks that it would answer."""

    recording: Recording
    checks: tuple[str, ...]


def record_next(needs: Mapping[str, str], first: str = "") -> tuple[RecordNext, ...]:
    """At most ``MOST`` recordings that answer most of the open checks (what each needs, by name).

    ``first`` is what would settle the verdict: its recording comes before the others. Of those that answer equally
    many checks the cheapest is taken.
    """
    left = {name: set(recordings_for(need)) for name, need in needs.items()}
    chosen: list[RecordNext] = []
    wanted: Sequence[str] = recordings_for(first)[:1]
    while len(chosen) < MOST and (wanted or any(left.values())):
        name = wanted[0] if wanted else max(recordings(), key=lambda each: sum(each in own for own in left.values()))
        answered = tuple(check for check, own in left.items() if name in own)
        chosen.append(RecordNext(recordings()[name], answered))
        left = {check: own for check, own in left.items() if check not in answered}
        wanted = ()
    return tuple(chosen)
