"""The dumps of all ranks as one record: which rank wrote each, and which group each call is of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from tools.errors import InputError
from tools.run.kinds import FLIGHT_FORMAT
from tools.run.model import Source
from tools.run.recorded.collective_records import (
    CALL_COLUMNS,
    NO_PEER,
    STATUS_COLUMNS,
    CollectiveRecords,
    FlightDump,
    FlightGroup,
    FlightRecords,
)
from tools.sources.flight_recorder.dump import Dump, read_dump
from tools.sources.formats import Anchor, Contribution, FolderFiles

RANK_NAMES = (re.compile(r"rank[_-]?(\d{1,7})(?!\d)", re.I), re.compile(r"(\d{1,7})(?:\.\w{1,10})*\Z"))
MOST_FILES = 16_384


@dataclass
class _Collected:
    """What was read so far; groups by name and ranks, as one name may stand for other ranks on another rank."""

    groups: dict[FlightGroup, int] = field(default_factory=dict)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    status: list[tuple[int, int, int, int]] = field(default_factory=list)
    dumps: dict[int, FlightDump] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


def read_flight_recorder(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The record of all dumps; a file that holds none, or another one of the same rank, is listed as excluded."""
    collected, sources, notes = _Collected(), list[Source](), list[str]()
    files = sorted({file for each in found for file in each.files}, key=lambda path: (path.parent, path.name))
    if len(files) > MOST_FILES:
        notes.append(f"{len(files)} dumps of flight recorders lie here; the first {MOST_FILES} are read")
    for path in files[:MOST_FILES]:
        try:
            dump = read_dump(path)
            rank = rank_of(path, dump)
            if rank in collected.dumps:
                other = collected.files[collected.dumps[rank].file]
                raise InputError(f"{path}: is a second dump of rank {rank} ({other} is read); give those of one moment")
        except InputError as error:
            sources.append(Source(path, FLIGHT_FORMAT, (), "excluded", str(error)))
            notes.append(f"left out: {error}")
            continue
        note = f"{dump.left_out} of its entries cannot be read" if dump.left_out else ""
        size, events = path.stat().st_size, len(dump.calls)
        sources.append(
            Source(path, FLIGHT_FORMAT, (rank,), "partial" if note else "complete", note, bytes=size, events=events)
        )
        notes += [f"{path.name}: {note}"] if note else []
        _collect(collected, path.name, rank, dump)
    if not collected.dumps:
        return Contribution(sources=tuple(sources), notes=tuple(notes))
    return Contribution(
        collectives=CollectiveRecords(flight=_record(collected)), sources=tuple(sources), notes=tuple(notes)
    )


def rank_of(path: Path, dump: Dump) -> int:
    """The rank that wrote the dump: the file's name ends with it, and a group has it; else the one that is in all."""
    members = [set(each.ranks) for each in dump.groups.values() if each.ranks]
    possible = set.intersection(*members) if members else set[int]()
    named = next((int(match[1]) for pattern in RANK_NAMES if (match := pattern.search(path.name))), None)
    if named is not None and (not members or any(named in each for each in members)):
        return named
    if len(possible) == 1:
        return possible.pop()
    raise InputError(f"{path}: neither its name nor its groups show which rank wrote it; end its name with the rank")


def _collect(collected: _Collected, name: str, rank: int, dump: Dump) -> None:
    file = len(collected.files)
    collected.files.append(name)
    groups = {name: group for name, group in dump.groups.items() if rank in group.ranks}
    for call in dump.calls:  # a group whose ranks no dump lists
        groups.setdefault(call.group[0], FlightGroup(*call.group, ()))
    places = {name: collected.groups.setdefault(group, len(collected.groups)) for name, group in groups.items()}
    for call in dump.calls:
        members = groups[call.group[0]].ranks
        peer = members[call.peer] if 0 <= call.peer < len(members) else NO_PEER
        collected.calls.append(
            (
                *(rank, file, call.row, call.record, places[call.group[0]], call.sequence, peer, call.elements),
                *(call.created_ns, call.seen_ns, call.timeout_ms, call.state, call.p2p, call.sends),
                *(call.operation, call.types),
            )
        )
    for number, group in numbered(dump).items():
        if group in places:
            collected.status.append((rank, places[group], *dump.status[number]))
    records = {call.record for call in dump.calls}
    whole = bool(records) and min(records) == 0 and max(records) == len(records) - 1
    collected.dumps[rank] = FlightDump(rank, file, whole and not dump.left_out, tuple(places.values()))


def numbered(dump: Dump) -> dict[str, str]:
    """The names of the groups by their numbers in the process, which its status is listed by.

    Its calls state both. Of groups without a call: names and numbers both rise with each group that is made, so the
    lists go together where they are equally long and the calls agree.
    """
    known = {call.group_id: call.group[0] for call in dump.calls if call.group_id in dump.status}
    names, numbers = list(dump.groups), list(dump.status)
    if len(names) != len(numbers) or not all(each.isdecimal() for each in (*names, *numbers)):
        return known
    paired = dict(zip(sorted(numbers, key=int), sorted(names, key=int), strict=True))
    return paired if all(paired[number] == name for number, name in known.items()) else known


def _record(collected: _Collected) -> FlightRecords:
    names = ["rank", "file", "row", "record", "group", "sequence", "peer", "elements", "created_ns", "seen_ns"]
    names += ["timeout_ms", "state", "p2p", "sends", "operation", "types"]
    return FlightRecords(
        calls=pd.DataFrame(collected.calls, columns=names).astype(CALL_COLUMNS),
        status=pd.DataFrame(collected.status, columns=list(STATUS_COLUMNS)).astype(STATUS_COLUMNS),
        groups=tuple(collected.groups),
        dumps=tuple(collected.dumps[rank] for rank in sorted(collected.dumps)),
        files=tuple(collected.files),
    )
