"""Files with one reading each of the same totals on one machine: which was taken first, by their times or names.

Numbers in names order nothing unless they are dates: ``node1`` and ``node2`` are two machines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from tools.run.recorded.counters import COUNTERS, CounterRecords

NS_PER_S = 10**9
EARLIER = ("before", "start", "begin", "pre", "first", "t0")
LATER = ("after", "end", "post", "last", "second", "t1")
WORD = re.compile(rf"(?<![a-z])({'|'.join((*EARLIER, *LATER))})(?![a-z])", re.I)
DATE = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:.-]?(\d\d)(?:[:.-]?(\d\d))?(?!\d)")
EPOCH = re.compile(r"(?<!\d)(1[5-9]\d{8})(?!\d)")
TWO = 2


@dataclass(frozen=True)
class _Reading:
    """One file with a single reading: its place among the sources, and when it was taken in s, as far as known."""

    source: int
    name: str
    at_s: float | None


def in_order(records: CounterRecords) -> tuple[CounterRecords, tuple[str, ...]]:
    """The records with the second of two such files as a later reading of the first; and a note on those whose order
    is not known, or whose totals fall."""
    follows: dict[int, int] = {}
    seconds: dict[int, float] = {}
    notes = []
    for readings in _alike(records):
        names = " and ".join(each.name for each in readings)
        ordered = _ordered(readings)
        if ordered is None:
            notes.append(
                f"{names} hold the same totals, each read once, and neither times nor names say which was first on one "
                "machine: their differences are not used; name them `before` and `after`"
            )
        elif _falls(records, *ordered):
            notes.append(
                f"{names}: totals of the second are lower, so they are not of one machine since its start, or are "
                "increments, as of nstat without `-a`; their differences are not used"
            )
        else:
            first, second = ordered
            follows[second.source] = first.source
            if first.at_s is not None and second.at_s is not None:
                seconds[second.source] = second.at_s - first.at_s
    return replace(records, follows=follows, seconds_after=seconds), tuple(notes)


def _alike(records: CounterRecords) -> list[list[_Reading]]:
    """The files with one reading of totals alone, two of each machine with the same counters."""
    samples = records.samples
    total = samples["counter"].map(lambda name: name in COUNTERS and COUNTERS[name].kind == "total")
    groups: dict[tuple[str, frozenset[tuple[object, ...]]], list[_Reading]] = {}
    for file, table in samples.groupby("file"):
        place = int(str(file))
        own = total.loc[table.index].to_numpy(dtype=bool)
        if table["tick"].nunique() > 1 or not own.any():
            continue
        rows = table[own]
        parts = frozenset(zip(rows["counter"], rows["device"], rows["part"], strict=True))
        name = records.sources[place].path.rsplit("/", 1)[-1]
        known = rows["time_unix_ns"].dropna().to_numpy(dtype=np.float64)
        at_s = float(np.median(known)) / NS_PER_S if len(known) else _named_s(name)
        groups.setdefault((str(rows["host"].iloc[0]), parts), []).append(_Reading(place, name, at_s))
    return [each for each in groups.values() if len(each) == TWO]


def _named_s(name: str) -> float | None:
    """The date or the seconds since 1970 in a name."""
    if found := EPOCH.search(name):
        return float(found[1])
    if not (found := DATE.search(name)):
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _ordered(readings: Sequence[_Reading]) -> tuple[_Reading, _Reading] | None:
    """Earlier and later by the times, else by words in otherwise equal names."""
    first, second = readings
    if first.at_s is not None and second.at_s is not None and first.at_s != second.at_s:
        return (first, second) if first.at_s < second.at_s else (second, first)
    words = [WORD.search(each.name) for each in readings]
    rests = {WORD.sub("", each.name.lower(), count=1) for each in readings}
    known = [None if word is None else word[1].lower() in LATER for word in words]
    if None in known or known[0] == known[1] or len(rests) > 1:
        return None
    return (second, first) if known[0] else (first, second)


def _falls(records: CounterRecords, first: _Reading, second: _Reading) -> bool:
    """Whether any total of the second is lower than that of the first."""
    samples = records.samples
    keys = ["counter", "device", "part"]
    values = [
        samples[(samples["file"] == each.source).to_numpy(dtype=bool)].groupby(keys)["value"].first()
        for each in (first, second)
    ]
    rise = values[1] - values[0]
    totals = [COUNTERS[str(name)].kind == "total" for name in rise.index.get_level_values("counter")]
    return bool((rise[np.array(totals, dtype=bool)] < 0).any())
