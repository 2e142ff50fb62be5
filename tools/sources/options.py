"""Options of reading a run, and the reports of its progress."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

MIB = 1 << 20
GIB = 1 << 30


class Progress(Protocol):
    """Hears how far reading has come."""

    def update(self, stage: str, done: int, total: int, detail: str) -> None:
        """``done`` of ``total`` units of ``stage`` are finished; ``detail`` names the present one."""


class Silent:
    """A progress listener that does nothing."""

    def update(self, stage: str, done: int, total: int, detail: str) -> None:
        """Ignore the report."""


@dataclass(frozen=True)
class Limits:
    """Bounds on untrusted input; each is far above what a profiler writes."""

    slice_bytes: int = MIB  # text decoded at once: its objects then stay within the processor's cache
    expanded_bytes: int = 16 * GIB  # a trace this large holds some 60 million events, more than fits in memory
    ratio: int = 1000  # traces compress 10 to 40 times; deflate's own limit is 1032
    ratio_free_bytes: int = 64 * MIB  # below this any ratio is harmless
    members: int = 1 << 18  # gzip members of one file; blocked gzip puts 64 KiB into each, 16 GiB into so many
    expand_s: float = 300.0  # of a processor for one file: 16 GiB take some 20
    metadata_bytes: int = 64 * MIB  # everything in the file that is not an event
    event_bytes: int = 8 * MIB  # one event; what is damaged is searched for events in some ten times as much memory
    events: int = 10_000_000  # of one Nsight export: with more its middle is read (docs/nsys.md)
    export_rows: int = 20_000_000  # of one Nsight export, some 350 bytes each; the size of a window is an estimate
    span_days: int = 7  # no profiler window is longer: events further from the rest carry a damaged time
    files: int = 65_536  # trace files taken from one folder; few are in memory at once
    cache_bytes: int = 4 * GIB  # the oldest cached runs are removed beyond this


@dataclass(frozen=True)
class LoadOptions:
    """Options of reading a run; the defaults suit a person at a terminal."""

    cache_dir: Path | None = None  # None: nothing is kept between runs
    workers: int | None = None  # processes; None: one per core
    alone_bytes: int = 4 * MIB  # compressed; up to here a second process costs more than it saves
    limits: Limits = Limits()
    log_pattern: str = ""  # how step lines of a job's output look, where its own lines are of no known program

    def worker_count(self) -> int:
        """The number of processes to use, at least one."""
        if self.workers is not None:
            return max(1, self.workers)
        return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
