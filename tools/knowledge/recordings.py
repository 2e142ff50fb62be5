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


def next_recording(names: Sequence[str], here: frozenset[str]) -> Recording | None:
    """The first of the recordings that the run does not hold; None where it holds all."""
    return next((recordings()[name] for name in names if name not in here), None)


@dataclass(frozen=True)
class RecordNext:
    """One recording to make next, and the checks that it would answer."""

    recording: Recording
    checks: tuple[str, ...]


ON_ASCEND: Mapping[str, str] = {"trace": "level1", "nsys": "level1"}  # the profiler of these devices
NOT_ON_ASCEND = ("utilization", "memory")  # tools of other devices


def record_next(
    needs: Mapping[str, str], first: str = "", here: frozenset[str] = frozenset(), ascend: bool = False
) -> tuple[RecordNext, ...]:
    """At most ``MOST`` recordings that answer most of the open checks (what each needs, by name).

    ``first`` is what would settle the verdict: its recording comes before the others. Of those that answer equally
    many checks the cheapest is taken, on devices of Ascend that of its own profiler, and none that is ``here`` already.
    """
    left = {name: {*_possible(recordings_for(need), here, ascend)} for name, need in needs.items()}
    chosen: list[RecordNext] = []
    wanted: Sequence[str] = _possible(recordings_for(first), here, ascend)[:1]
    while len(chosen) < MOST and (wanted or any(left.values())):
        name = wanted[0] if wanted else max(recordings(), key=lambda each: sum(each in own for own in left.values()))
        answered = tuple(check for check, own in left.items() if name in own)
        chosen.append(RecordNext(recordings()[name], answered))
        left = {check: own for check, own in left.items() if check not in answered}
        wanted = ()
    return tuple(chosen)


def _possible(names: Sequence[str], here: frozenset[str], ascend: bool) -> tuple[str, ...]:
    """The recordings of these that can be made on the devices of the run and are not there."""
    own = [ON_ASCEND.get(each, each) for each in names if each not in NOT_ON_ASCEND] if ascend else names
    return tuple(dict.fromkeys(each for each in own if each not in here))
