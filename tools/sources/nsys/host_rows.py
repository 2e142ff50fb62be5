"""Host events of an export: CUDA calls, NVTX ranges and calls of the operating system, by process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tools.run.kinds import EventKind
from tools.sources.nsys.device_rows import Ranks
from tools.sources.nsys.names import Range, call_name, range_of
from tools.sources.nsys.nccl_payloads import Calls, Payloads
from tools.sources.nsys.pieces import Numbers, Piece, pieces
from tools.sources.nsys.rank_rows import LOW_BITS, RankRows, process_of
from tools.sources.nsys.recognise import CALLS, RANGES
from tools.sources.nsys.session import LONGEST_NAME, Strings
from tools.sources.sqlite_file import ABSENT, Database

SYSTEM_CALLS = "OSRT_API"
THREADS = "ThreadNames"
# ENUM_NSYS_EVENT_TYPE of the export.
MARK, PUSH_POP, START_END, EXTENDED_PUSH_POP, DOMAIN = 34, 59, 60, 70, 75
DIGITS = re.compile(r"\d+")
MOST_OPEN = 1 << 16  # ranges that end at the very end of the recording


@dataclass
class HostCounts:
    """What became of the host's events."""

    read: dict[str, int] = field(default_factory=dict)  # rows of each table of the processes that used a device
    elsewhere: int = 0  # rows of processes that used no device
    dropped: int = 0  # calls of the operating system beyond what memory may hold: no check reads these
    never_popped: dict[str, int] = field(default_factory=dict)  # ranges taken to end where the next one begins


@dataclass(frozen=True)
class _Open:
    """A range that was pushed and that the profiler closed when the recording stopped."""

    start: int
    thread: int
    said: Range


@dataclass
class _Unpopped:
    """Ranges of one process that end where the last range of the recording ends: they may never have been popped."""

    waiting: list[_Open] = field(default_factory=list)
    latest: dict[int, int] = field(default_factory=dict)  # the end of the last other range of each thread
    end: int = ABSENT

    def take(self, rows: Piece, said: list[Range], candidates: NDArray[np.bool_]) -> Numbers:
        """Keep such ranges back; returns the places of the others."""
        popped = np.ones(len(said), dtype=bool)
        for at in np.flatnonzero(candidates).tolist():
            if said[at].kind == EventKind.ANNOTATION and len(self.waiting) < MOST_OPEN:
                self.waiting.append(_Open(int(rows["start"][at]), int(rows["globalTid"][at]), said[at]))
                self.end = int(rows["end"][at])
                popped[at] = False
        thread, end = rows["globalTid"][popped], rows["end"][popped]
        for each in np.unique(thread).tolist():
            self.latest[each] = max(self.latest.get(each, ABSENT), int(end[thread == each].max()))
        return np.flatnonzero(popped)

    def close(self, rows: RankRows, counts: HostCounts) -> None:
        """Of ranges of one kind that were pushed again and again and never popped, each lasts until the next begins.

        The last of them lasts until the last range inside it ends; without one its end is unknown and it is left out.
        One alone of its kind is taken as it is.
        """
        families: dict[tuple[int, str], list[_Open]] = {}
        for each in sorted(self.waiting, key=lambda each: each.start):
            families.setdefault((each.thread, DIGITS.sub("#", each.said.name)), []).append(each)
        ends: list[int] = []
        kept: list[_Open] = []
        for (thread, family), members in families.items():
            stops = [self.end]
            if len(members) > 1:
                counts.never_popped[family] = counts.never_popped.get(family, 0) + len(members)
                inside = self.latest.get(thread, ABSENT)
                stops = [*(after.start for after in members[1:]), *([inside] if inside > members[-1].start else [])]
            kept += members[: len(stops)]
            ends += stops
        start = np.array([each.start for each in kept], dtype=np.int64)
        threads = np.array([each.thread for each in kept], dtype=np.int64)
        no_marks = np.zeros(len(kept), dtype=bool)
        _add_ranges(rows, start, np.array(ends, dtype=np.int64), threads, [each.said for each in kept], no_marks)


def read_host_events(database: Database, strings: Strings, ranks: Ranks) -> HostCounts:
    """Add what the host did to the ranks; events of processes without device work are counted and left out."""
    counts = HostCounts()
    names = strings.texts

    def calls(numbers: list[int]) -> list[str]:
        return [call_name(text) for text in names(numbers)]

    _named(database, ranks, counts, CALLS, EventKind.RUNTIME, calls)
    _ranges(database, strings, ranks, counts)
    _named(database, ranks, counts, SYSTEM_CALLS, EventKind.OTHER, names)
    _threads(database, ranks, names)
    return counts


def _named(
    database: Database,
    ranks: Ranks,
    counts: HostCounts,
    table: str,
    kind: EventKind,
    texts: Callable[[list[int]], list[str]],
) -> None:
    """Calls whose name is a number of a text."""
    columns = ["start", "end", "correlationId", "nameId", "globalTid"]
    if table == SYSTEM_CALLS and ranks.window is not None:
        counts.dropped += database.row_count(table)
        return
    for piece in pieces(database, table, columns, where=ranks.where):
        if table == SYSTEM_CALLS and not ranks.holds(len(piece)):
            counts.dropped += len(piece)
            continue
        ranks.count(table, len(piece))
        for process, at in _by_process(ranks, counts, table, piece["globalTid"]):
            rows, own = ranks.by_process[process], piece.taken(at)
            names, tracks = rows.codes(own["nameId"], texts), rows.host_tracks(own["globalTid"])
            rows.add(own["start"], own["end"], kind, names, tracks, own["correlationId"])


def _by_process(ranks: Ranks, counts: HostCounts, table: str, thread: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each process that used a device, and the places of its rows among rows of these threads."""
    counts.read.setdefault(table, 0)
    process = process_of(thread)
    if ranks.unnamed:
        process = np.full(len(thread), next(iter(ranks.by_process)))
    for each in np.unique(process).tolist():
        own = np.flatnonzero(process == each)
        if each in ranks.by_process:
            counts.read[table] += len(own)
            yield each, own
        else:
            counts.elsewhere += len(own)


def _ranges(database: Database, strings: Strings, ranks: Ranks, counts: HostCounts) -> None:
    domains, last = _domains(database, strings), _last_end(database)
    unpopped = {process: _Unpopped() for process in ranks.by_process}
    columns = ["start", "end", "eventType", "textId", "domainId", "globalTid"]
    wanted = f"eventType IN ({MARK}, {PUSH_POP}, {START_END}, {EXTENDED_PUSH_POP})"
    where = [wanted] if database.has(RANGES, "eventType") else []
    if ranks.window is not None:
        where += [ranks.where, f'("end" IS NULL OR "end" < {ranks.window.latest_end_ns} OR "end" = {last})']
    payloads, calls = Payloads.of(database), dict[int, Calls]()
    blob = "binaryData" if payloads else None
    for piece in pieces(database, RANGES, columns, "text", " AND ".join(where), blob):
        ranks.count(RANGES, len(piece))
        words = _texts(piece, strings)
        for process, at in _by_process(ranks, counts, RANGES, piece["globalTid"]):
            own = piece.taken(at)
            places = zip(process_of(own["globalTid"]).tolist(), own["domainId"].tolist(), strict=True)
            said = [
                range_of(words[row], domains.get(place, "")) for row, place in zip(at.tolist(), places, strict=True)
            ]
            mark = own["eventType"] == MARK
            popped = unpopped[process].take(own, said, (own["end"] == last) & ~mark)
            stop = np.where(mark, own["start"], own["end"])[popped]
            kept = [said[row] for row in popped.tolist()]
            rows = ranks.by_process[process]
            at_row = _add_ranges(rows, own["start"][popped], stop, own["globalTid"][popped], kept, mark[popped])
            if piece.blobs:
                blobs = [piece.blobs[row] for row in at[popped].tolist()]
                calls.setdefault(process, Calls()).take(payloads, at_row, [each.name for each in kept], blobs)
    for process, found in calls.items():
        found.close(ranks.by_process[process])
    for process, each in unpopped.items():
        each.close(ranks.by_process[process], counts)


def _texts(piece: Piece, strings: Strings) -> list[str]:
    """The text of each range: its own, or the numbered one."""
    numbered = strings.texts(piece["textId"].tolist())
    given = zip(piece.texts, numbered, strict=True)
    return [other if text is None else str(text)[:LONGEST_NAME] for text, other in given]


def _last_end(database: Database) -> int:
    """The end of the range that ends last: of ranges that were never popped it is the end of the recording."""
    if not database.has(RANGES, "end"):
        return ABSENT
    (last,) = database.aggregates(RANGES, 'MAX("end")')
    return last if isinstance(last, int) else ABSENT


def _domains(database: Database, strings: Strings) -> dict[tuple[int, int], str]:
    """The name of each domain, by process and number."""
    found: dict[tuple[int, int], str] = {}
    if database.has(RANGES, "eventType", "domainId"):
        columns = ["textId", "domainId", "globalTid"]
        for piece in pieces(database, RANGES, columns, "text", f"eventType = {DOMAIN}"):
            places = zip(process_of(piece["globalTid"]).tolist(), piece["domainId"].tolist(), strict=True)
            found |= dict(zip(places, _texts(piece, strings), strict=True))
    return found


def _add_ranges(
    rows: RankRows, start: Numbers, end: Numbers, thread: Numbers, said: list[Range], marks: NDArray[np.bool_]
) -> Numbers:
    """Add them; returns the row of each, -1 of those without a usable time."""
    if not said:
        return np.empty(0, dtype=np.int64)
    kinds = np.where(marks, EventKind.INSTANT, [each.kind for each in said]).astype(np.int8)
    names = rows.columns.names
    codes = np.array([names[each.name] for each in said], dtype=np.int32)
    usable, at = rows.add(start, end, kinds, codes, rows.host_tracks(thread))
    kept = [each for each, good in zip(said, usable.tolist(), strict=True) if good]
    operators = [place for place, each in enumerate(kept) if each.sequence >= 0 or each.sizes]
    rows.add_details(
        "operators",
        at[operators],
        {
            "dims": [kept[place].sizes for place in operators],
            "sequence": np.array([kept[place].sequence for place in operators], dtype=np.int64),
        },
    )
    placed = np.full(len(said), -1, dtype=np.int64)
    placed[usable] = at
    return placed


def _threads(database: Database, ranks: Ranks, texts: Callable[[list[int]], list[str]]) -> None:
    """Names of threads that have events."""
    mask = (1 << LOW_BITS) - 1
    labels: dict[int, str] = {}
    for piece in pieces(database, THREADS, ["nameId", "globalTid"]):
        labels |= dict(zip(piece["globalTid"].tolist(), texts(piece["nameId"].tolist()), strict=True))
    for process, rows in ranks.by_process.items():
        own = {(each >> LOW_BITS & mask, each & mask): text for each, text in labels.items() if each & ~mask == process}
        rows.columns.labels |= {key: own[key] for key in rows.columns.tracks if key in own}
