"""Times in which a thread that launches work ran on no processor, from the scheduler's events of an export."""

from __future__ import annotations

import numpy as np

from tools.run.kinds import OFF_CPU, EventKind
from tools.sources.nsys.device_rows import Ranks
from tools.sources.nsys.pieces import pieces
from tools.sources.nsys.rank_rows import process_of
from tools.sources.nsys.recognise import CALLS
from tools.sources.sqlite_file import Database

SCHEDULED = "SCHED_EVENTS"
COLUMNS = ["start", "isSchedIn", "globalTid"]
MOST_THREADS = 1024  # that call CUDA


def read_off_cpu(database: Database, ranks: Ranks) -> int:
    """Add an event for each such time, from when a thread leaves its processor to when it gets one; returns how many.

    Times that begin before the recording or end after it are left out. An export without the table says nothing of it,
    and neither does one with more of these rows than memory holds.
    """
    if not database.has(SCHEDULED, *COLUMNS):
        return 0
    threads = database.different(CALLS, "globalTid", MOST_THREADS)
    if not threads:
        return 0
    chosen = f"globalTid IN ({', '.join(map(str, threads))})"
    where = chosen if not ranks.where else f"{chosen} AND {ranks.where}"
    parts = list(pieces(database, SCHEDULED, COLUMNS, where=where)) if ranks.admits(database, SCHEDULED, where) else []
    if not parts:
        return 0
    start, running, thread = (np.concatenate([piece[name] for piece in parts]) for name in COLUMNS)
    order = np.lexsort((start, thread))
    start, running, thread = start[order], running[order] != 0, thread[order]
    left = np.flatnonzero(~running[:-1] & running[1:] & (thread[:-1] == thread[1:]))
    begun, ended, thread = start[left], start[left + 1], thread[left]
    process, count = process_of(thread), 0
    for each in np.unique(process).tolist():
        own = process == each
        if each not in ranks.by_process:
            continue
        rows = ranks.by_process[each]
        ranks.count(SCHEDULED, int(own.sum()))
        name = np.full(int(own.sum()), rows.columns.names[OFF_CPU], dtype=np.int32)
        rows.add(begun[own], ended[own], EventKind.OTHER, name, rows.host_tracks(thread[own]))
        count += int(own.sum())
    return count
