"""Device work of an export: kernels, CUDA graphs, copies, fills and synchronisation, by process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools.errors import InputError
from tools.run.kinds import EventKind
from tools.sources.nsys.names import SYNCHRONIZATIONS, copy_name
from tools.sources.nsys.pieces import Numbers, Piece, pieces
from tools.sources.nsys.rank_rows import RankRows, process_of
from tools.sources.nsys.recognise import KERNELS
from tools.sources.nsys.session import Strings
from tools.sources.nsys.window import Window
from tools.sources.options import Limits
from tools.sources.sqlite_file import ABSENT, Database

GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS = "CUPTI_ACTIVITY_KIND_MEMSET"
SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
WORK = (KERNELS, GRAPHS, COPIES, FILLS)
COMMON = ["start", "end", "deviceId", "streamId", "correlationId", "globalPid", "contextId"]
NEEDED = ("start", "end", "deviceId", "streamId")
MOST_PROCESSES = 1024
FEWER = "record fewer steps, with nsys profile --delay and --duration"
LARGEST_GRID = 2.0**62
NO_PROCESS = process_of(np.array([ABSENT])).item()

Texts = Callable[[list[int]], list[str]]  # the names of different numbers
Taken: TypeAlias = tuple[NDArray[np.bool_], Numbers]  # which had usable times, and the row of each of these


@dataclass
class Ranks:
    """The rows of every process that used a device, and how many work items each table held."""

    by_process: dict[int, RankRows] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    read: int = 0  # rows of all tables
    left_out: dict[str, int] = field(default_factory=dict)  # rows of optional tables that memory would not hold
    most: int = Limits().export_rows
    window: Window | None = None  # None: all of the recording is read

    @property
    def where(self) -> str:
        """The condition on the rows that are read; "" for all."""
        return "" if self.window is None else self.window.where

    def count(self, table: str, rows: int) -> None:
        """Note that rows were read; InputError where memory would not hold them all."""
        self.read += rows
        if self.read > self.most:
            raise InputError(f"the export holds more than {self.most} events (reached in {table}); {FEWER}")

    def holds(self, rows: int) -> bool:
        """Whether so many more rows may be read."""
        return self.read + rows <= self.most

    def admits(self, database: Database, table: str, where: str = "") -> bool:
        """Whether the rows of a table that a run can do without may be read too; else they are noted as left out."""
        if self.holds(database.most_rows(table)):
            return True
        rows = database.row_count(table, where)
        if self.holds(rows):
            return True
        self.left_out[table] = rows
        return False

    @property
    def unnamed(self) -> bool:
        """Whether device work does not say its process, so that all belongs to one."""
        return list(self.by_process) == [NO_PROCESS]

    def rows_of(self, process: int) -> RankRows:
        """The rows of a process; InputError where there are absurdly many."""
        if process not in self.by_process and len(self.by_process) >= MOST_PROCESSES:
            raise InputError(
                f"device work of more than {MOST_PROCESSES} processes in one file; export one node at a time"
            )
        return self.by_process.setdefault(process, RankRows())


Take = Callable[[RankRows, Piece], None]


def read_device_work(database: Database, strings: Strings, ranks: Ranks) -> None:
    """Fill the ranks with what ran on devices; InputError where a table lacks what every version has."""
    shapes = ["gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread"]
    memory = ["staticSharedMemory", "dynamicSharedMemory"]
    names = ["demangledName", "shortName"]

    def kernel(rows: RankRows, columns: Piece) -> None:
        _kernels(rows, columns, strings)

    _each(database, ranks, KERNELS, [*names, *shapes, *memory], kernel)
    _each(database, ranks, GRAPHS, ["graphId"], _graphs)
    _each(database, ranks, COPIES, ["bytes", "copyKind", "srcKind", "dstKind"], _copies)
    _each(database, ranks, FILLS, ["bytes"], _fills)
    if any(ranks.counts.values()):
        _each(database, ranks, SYNCS, ["syncType", "eventId"], _syncs)


def _each(database: Database, ranks: Ranks, table: str, names: list[str], take: Take) -> None:
    """Hand a table's rows to ``take``, those of one process at a time."""
    if table not in database.columns:
        return
    lacking = [name for name in NEEDED if name not in database.columns[table] and table in WORK]
    if lacking:
        raise InputError(
            f"{database.path}: its table {table} has no column {lacking[0]}, which every known version has; "
            "export the report again with a released version of nsys"
        )
    ranks.counts[table] = 0
    for columns in pieces(database, table, [*COMMON, *names], where=ranks.where):
        ranks.counts[table] += len(columns)
        ranks.count(table, len(columns))
        process = process_of(columns["globalPid"])
        for each in np.unique(process).tolist():
            if table == SYNCS and each not in ranks.by_process:
                continue
            own = process == each
            take(ranks.rows_of(each), columns.taken(own))


def _add(rows: RankRows, columns: Piece, kind: EventKind, names: Numbers, texts: Texts) -> Taken:
    if kind != EventKind.SYNC:
        rows.note_contexts(columns["contextId"], columns["deviceId"])
    track = rows.device_tracks(columns["deviceId"], columns["streamId"])
    return rows.add(columns["start"], columns["end"], kind, rows.codes(names, texts), track, columns["correlationId"])


def _kernels(rows: RankRows, columns: Piece, strings: Strings) -> None:
    number = np.where(columns["demangledName"] >= 0, columns["demangledName"], columns["shortName"])
    usable, at = _add(rows, columns, EventKind.KERNEL, number, strings.texts)
    grid, block = ([columns[f"{name}{axis}"][usable] for axis in "XYZ"] for name in ("grid", "block"))
    shared = [columns[name][usable] for name in ("staticSharedMemory", "dynamicSharedMemory")]
    registers = columns["registersPerThread"][usable]
    rows.add_details(
        "kernels",
        at,
        {
            "blocks": _product(grid),
            "threads": _product(block),
            "registers": np.where(registers >= 0, registers, np.nan),
            "shared_bytes": np.where((shared[0] >= 0) & (shared[1] >= 0), shared[0] + shared[1], np.nan),
        },
    )


def _product(sizes: list[Numbers]) -> Numbers:
    """The product of three sizes; -1 where one is missing."""
    product = sizes[0].astype(float) * sizes[1] * sizes[2]
    known = (sizes[0] >= 0) & (sizes[1] >= 0) & (sizes[2] >= 0) & (product < LARGEST_GRID)
    return np.where(known, np.where(known, product, -1.0).astype(np.int64), -1)


def _graphs(rows: RankRows, columns: Piece) -> None:
    _add(rows, columns, EventKind.KERNEL, columns["graphId"], lambda ids: [f"CUDA graph {each}" for each in ids])


def _copies(rows: RankRows, columns: Piece) -> None:
    kinds = [np.clip(columns[name], -1, 98) + 1 for name in ("copyKind", "srcKind", "dstKind")]
    joined = (kinds[0] * 100 + kinds[1]) * 100 + kinds[2]
    usable, at = _add(
        *(rows, columns, EventKind.MEMCPY, joined),
        lambda codes: [copy_name(code // 10_000 - 1, code // 100 % 100 - 1, code % 100 - 1) for code in codes],
    )
    rows.add_details("copies", at, {"bytes": np.maximum(columns["bytes"][usable], -1)})


def _fills(rows: RankRows, columns: Piece) -> None:
    none = np.zeros(len(columns), dtype=np.int64)
    usable, at = _add(rows, columns, EventKind.MEMSET, none, lambda _: ["Memset (Device)"])
    rows.add_details("copies", at, {"bytes": np.maximum(columns["bytes"][usable], -1)})


def _syncs(rows: RankRows, columns: Piece) -> None:
    """Their device is that of their context: exports give index 0 for it whatever the process uses."""
    kinds = columns["syncType"]
    columns.numbers["deviceId"] = rows.devices_of(columns["contextId"], columns["deviceId"])
    usable, at = _add(
        *(rows, columns, EventKind.SYNC, kinds),
        _sync_names,
    )
    rows.add_details(
        "syncs",
        at,
        {
            "sync_kind": _sync_names(kinds[usable].tolist()),
            "stream": np.clip(columns["streamId"][usable], -1, 2**32),
            "event": np.maximum(columns["eventId"][usable], -1),
        },
    )


def _sync_names(kinds: list[int]) -> list[str]:
    return [SYNCHRONIZATIONS.get(each, "Unknown Sync") for each in kinds]
