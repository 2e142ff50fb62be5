"""JSON lines of NCCL Inspector as one table; sends and receives (``p2p_perf``) are counted and left out.

Members as in ext-profiler/inspector/inspector.cc of NVIDIA/nccl, format versions 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pandas as pd

from tools.errors import InputError
from tools.run.kinds import INSPECTOR_FORMAT
from tools.run.model import Source, SourceStatus
from tools.run.recorded.collective_records import INSPECTOR_COLUMNS, NO_RANK, CollectiveRecords, InspectorRecords
from tools.sources.decompress import Expansion
from tools.sources.formats import Anchor, Contribution, FolderFiles
from tools.sources.options import Limits

MOST_ROWS = 1 << 21  # of all files together
LONGEST_LINE = 1 << 20  # verbose lines hold the events of every channel
LARGEST = 1 << 62
LONGEST_US = 1e12


class _Header(msgspec.Struct):
    id: str
    rank: int
    n_ranks: int
    nnodes: int = 0


class _Metadata(msgspec.Struct):
    hostname: str = ""
    pid: int = 0


class _Performance(msgspec.Struct):
    coll: str
    coll_sn: int
    coll_msg_size_bytes: int
    coll_exec_time_us: float
    coll_busbw_gbs: float
    coll_timing_source: str = ""


class _Line(msgspec.Struct):
    header: _Header
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    coll_perf: _Performance | None = None


@dataclass
class _File:
    """What one file gave: rows as in ``NAMES``."""

    rows: list[tuple[object, ...]]
    other: int = 0  # lines of sends and receives
    bad: int = 0
    note: str = ""


NAMES = ["line", "member", "ranks", "nodes", "sequence", "bytes", "time_us", "busbw_gb_per_s", "communicator"]
NAMES += ["operation", "timing", "host", "pid"]
DECODER = msgspec.json.Decoder(_Line)


def read_inspector(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The table of all files; one that holds no collective is listed as excluded."""
    tables: list[pd.DataFrame] = []
    sources: list[Source] = []
    notes: list[str] = []
    names: list[str] = []
    room = MOST_ROWS
    for path in sorted({file for each in found for file in each.files}):
        try:
            read = _read(path, room)
        except InputError as error:
            sources.append(Source(path, INSPECTOR_FORMAT, (), "excluded", str(error)))
            notes.append(f"left out: {error}")
            continue
        said = [read.note] if read.note else []
        said += [f"{read.bad} lines are no records of NCCL Inspector and were left out"] if read.bad else []
        said += [f"{read.other} lines of sends and receives were left out"] if read.other else []
        note = "; ".join(said)
        notes += [f"{path.name}: {note}"] if note else []
        if not read.rows:
            text = f"{path}: holds no collective of NCCL Inspector" + (f" ({note})" if note else "")
            sources.append(Source(path, INSPECTOR_FORMAT, (), "excluded", text))
            continue
        status: SourceStatus = "partial" if read.note or read.bad else "complete"
        size, rows = path.stat().st_size, len(read.rows)
        sources.append(Source(path, INSPECTOR_FORMAT, (), status, note, bytes=size, events=rows))
        tables.append(pd.DataFrame(read.rows, columns=NAMES).assign(file=len(names)))
        names.append(path.name)
        room -= len(read.rows)
    if not tables:
        return Contribution(sources=tuple(sources), notes=tuple(notes))
    whole = _with_ranks(pd.concat(tables, ignore_index=True))
    record = InspectorRecords(whole[list(INSPECTOR_COLUMNS)].astype(INSPECTOR_COLUMNS), tuple(names))
    return Contribution(collectives=CollectiveRecords(inspector=record), sources=tuple(sources), notes=tuple(notes))


def _read(path: Path, room: int) -> _File:
    expansion = Expansion(path, Limits())
    read = _File([])
    for number, line in enumerate(_lines(expansion), start=1):
        if not line.strip():
            continue
        try:
            value = DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            read.bad += 1
            continue
        if value.coll_perf is None:
            read.other += 1
        elif not _believable(value.header, value.coll_perf):
            read.bad += 1
        elif len(read.rows) >= room:
            read.note = f"only the first {len(read.rows)} collectives were read"
            break
        else:
            read.rows.append(_row(number, value.header, value.coll_perf, value.metadata))
    if expansion.damage and not read.note:
        read.note = f"{expansion.damage}, and what follows was left out"
    return read


def _lines(expansion: Expansion) -> Iterator[bytes]:
    """The lines of a file; of one that is longer than any record its parts, which do not decode."""
    rest = b""
    for piece in expansion:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


def _believable(header: _Header, found: _Performance) -> bool:
    whole = (header.rank, header.n_ranks, header.nnodes, found.coll_sn, found.coll_msg_size_bytes)
    if not all(0 <= each < LARGEST for each in whole) or header.rank >= header.n_ranks:
        return False
    return 0.0 < found.coll_exec_time_us < LONGEST_US and 0.0 <= found.coll_busbw_gbs < LONGEST_US


def _row(number: int, header: _Header, found: _Performance, about: _Metadata) -> tuple[object, ...]:
    return (
        *(number, header.rank, header.n_ranks, header.nnodes, found.coll_sn, found.coll_msg_size_bytes),
        *(found.coll_exec_time_us, found.coll_busbw_gbs, header.id[:64], found.coll[:64]),
        *(found.coll_timing_source[:64], about.hostname[:256], about.pid % LARGEST),
    )


def _with_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """The rank in the job of each process: that in the largest communicator, where all of that size agree on it."""
    largest = table[table["ranks"] == table["ranks"].max()]
    process = ["host", "pid"]
    own = largest.groupby(process)["member"].agg(["min", "max"]).reset_index()
    own = own[own["min"] == own["max"]].rename(columns={"min": "rank"})[[*process, "rank"]]
    joined = table.merge(own, on=process, how="left")
    return joined.assign(rank=joined["rank"].fillna(NO_RANK))
