"""The part of an export that is read where all of it would not fit in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tools.sources.nsys.recognise import KERNELS
from tools.sources.sqlite_file import Database

MOST_DEVICES = 64  # of one node
SAMPLES = 1024  # rows of each table whose times are looked up
# Of the window, at its end: ranges that end in it are left out, so that the device has finished what they launched.
TAIL_SHARE = 0.02


@dataclass(frozen=True)
class Window:
    """The recorded time whose events are read: from ``start_ns``, before ``end_ns``, on the export's clock."""

    start_ns: int
    end_ns: int
    first_ns: int  # of the whole recording
    last_ns: int
    events: int  # of the whole recording
    most: int  # are read at once

    @property
    def where(self) -> str:
        """The condition on rows with a start."""
        return f'"start" >= {self.start_ns} AND "start" < {self.end_ns}'

    @property
    def latest_end_ns(self) -> int:
        """Ranges of the program that end later are left out: the device may not have finished their work."""
        return self.end_ns - round(TAIL_SHARE * (self.end_ns - self.start_ns))

    @property
    def note(self) -> str:
        """What is read, in seconds from the first event."""
        begin, end, whole = ((each - self.first_ns) / 1e9 for each in (self.start_ns, self.end_ns, self.last_ns))
        return (
            f"the export holds {self.events:,} events, and {self.most:,} are read at once: those that begin from "
            f"{begin:.3f} s to {end:.3f} s of {whole:.3f} s, its middle; every figure is of that part"
        )


def steady_window(database: Database, tables: Sequence[str], most: int) -> Window | None:
    """The middle of the recording with about ``most`` events of these tables; None where it holds no more.

    Start-up and end lie outside of it. Times come from rows at equal distances. Rows are counted only where their
    numbers allow for more than ``most`` of them.
    """
    if sum(map(database.most_rows, tables)) <= most:
        return None
    counts = {table: count for table in tables if (count := database.row_count(table))}
    total = sum(counts.values())
    if total <= most:
        return None
    starts = {
        table: np.array(database.spaced(table, "start", SAMPLES, count), dtype=np.int64)
        for table, count in counts.items()
    }
    known = {table: each for table, each in starts.items() if len(each)}
    if not known:
        return None
    times = np.concatenate(list(known.values()))
    weights = np.concatenate([np.full(len(each), counts[table] / len(each)) for table, each in known.items()])
    order = np.argsort(times, kind="stable")
    times, share = times[order], np.cumsum(weights[order]) / weights.sum()
    begin, end = np.interp([0.5 - 0.5 * most / total, 0.5 + 0.5 * most / total], share, times)
    return Window(int(begin), int(end), int(times[0]), int(times[-1]), total, most)


@dataclass(frozen=True)
class KernelTotal:
    """All kernels of a device in a recording."""

    device: int
    count: int
    time_ns: int  # the sum of their durations


def kernel_totals(database: Database) -> tuple[KernelTotal, ...]:
    """The kernels of each device of the whole recording, added up by SQLite; of no more than ``MOST_DEVICES``."""
    if not database.has(KERNELS, "deviceId", "start", "end"):
        return ()
    devices = database.different(KERNELS, "deviceId", MOST_DEVICES)
    lasting = '"end" >= "start"'
    totals = [f'SUM(CASE WHEN deviceId = {each} THEN "end" - "start" END)' for each in devices]
    counts = [f"COUNT(CASE WHEN deviceId = {each} THEN 1 END)" for each in devices]
    row = database.aggregates(KERNELS, *counts, *totals, where=lasting) if devices else ()
    numbers = [each if isinstance(each, int) else 0 for each in row]
    return tuple(map(KernelTotal, devices, numbers[: len(devices)], numbers[len(devices) :]))
