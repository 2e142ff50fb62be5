"""Device memory that processes of an export allocate and free, as marks with the total after each."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tools.run.kinds import EventKind
from tools.sources.nsys.device_rows import Ranks
from tools.sources.nsys.pieces import Numbers, pieces
from tools.sources.nsys.rank_rows import RankRows, pid_of, process_of
from tools.sources.sqlite_file import Database

USAGE = "CUDA_GPU_MEMORY_USAGE_EVENTS"
COLUMNS = ["start", "globalPid", "deviceId", "bytes", "memoryOperationType"]
ON_DEVICE = "memKind = 2"  # ENUM_CUDA_MEM_KIND of the export
ALLOCATED, FREED = 0, 1  # ENUM_CUDA_DEV_MEM_EVENT_OPER
MARK = "[memory]"  # as the PyTorch profiler names them
LARGEST_BYTES = 1 << 50
UNKNOWN = -1


def read_memory(database: Database, ranks: Ranks) -> int:
    """Add the marks to the ranks; returns how many there are. Without them, or with too many, memory is unknown."""
    if not database.has(USAGE, *COLUMNS, "memKind") or not ranks.admits(database, USAGE, ON_DEVICE):
        return 0
    parts: defaultdict[int, list[dict[str, Numbers]]] = defaultdict(list)
    for piece in pieces(database, USAGE, COLUMNS, where=ON_DEVICE):
        ranks.count(USAGE, len(piece))
        process = process_of(piece["globalPid"])
        for each in np.unique(process).tolist():
            if each in ranks.by_process:
                own = piece.taken(process == each)
                parts[each].append(own.numbers)
    count = 0
    for each, tables in parts.items():
        columns = {name: np.concatenate([table[name] for table in tables]) for name in COLUMNS}
        count += _add(ranks, each, columns)
    return count


def _add(ranks: Ranks, process: int, columns: dict[str, Numbers]) -> int:
    rows = ranks.by_process[process]
    known = np.isin(columns["memoryOperationType"], (ALLOCATED, FREED))
    known &= (columns["bytes"] >= 0) & (columns["bytes"] <= LARGEST_BYTES)
    order = np.argsort(columns["start"][known], kind="stable")
    start, device, size, kind = (
        columns[name][known][order] for name in ("start", "deviceId", "bytes", "memoryOperationType")
    )
    change = np.where(kind == ALLOCATED, size, -size)
    total = _totals(device, change)
    if ranks.window is not None:
        inside = (start >= ranks.window.start_ns) & (start < ranks.window.end_ns)
        start, device, change, total = start[inside], device[inside], change[inside], total[inside]
    return _marks(rows, process, start, device, change, total)


def _totals(device: Numbers, change: Numbers) -> Numbers:
    """What is allocated on its device after each change; unknown where more is freed than was seen allocated."""
    total = np.full(len(change), UNKNOWN, dtype=np.int64)
    for each in np.unique(device).tolist():
        own = device == each
        held = np.cumsum(change[own])
        if len(held) and held.min() >= 0:
            total[own] = held
    return total


def _marks(rows: RankRows, process: int, start: Numbers, device: Numbers, change: Numbers, total: Numbers) -> int:
    count = len(start)
    track = np.full(count, rows.columns.tracks[pid_of(process), "memory"], dtype=np.int32)
    name = np.full(count, rows.columns.names[MARK], dtype=np.int32)
    usable, at = rows.add(start, start, EventKind.INSTANT, name, track)
    rows.add_details(
        "memory",
        at,
        {
            "bytes": change[usable],
            "total_allocated": np.full(int(usable.sum()), UNKNOWN),  # of it an allocator may use a part only
            "total_reserved": total[usable],
            "device_type": np.ones(int(usable.sum())),
            "device": device[usable],
        },
    )
    return int(usable.sum())
