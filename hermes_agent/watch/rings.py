"""The rings of a run on this machine, and the recovery of what a killed process left in its ring."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from time import time_ns

import psutil

from hermes_agent.monitor.format import (
    PREAMBLE,
    RECORD,
    RING,
    SEQUENCE,
    STEPS,
    STEPS_MAGIC,
    StepRecord,
    records_folder,
    ring_folders,
)
from hermes_agent.monitor.ring import CaptureRequest, RingError, RingReader


def is_abandoned(ring: RingReader) -> bool:
    """True when the process that wrote the ring is gone; for rings that are silent or closed only."""
    return not psutil.pid_exists(int(ring.description["pid"]))


def recover(ring: RingReader, run_folder: Path) -> int:
    """Appends the records that the file lacks, removes the ring, and says how many they were.

    Without the step file the ring is left alone: it is all that there is.
    """
    file = records_folder(run_folder) / f"{ring.path.stem}{STEPS}"
    if not file.is_file() or file.is_symlink():
        return 0
    handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
    try:
        begin = _begin(handle)
        if begin is None:
            return 0
        whole = (os.fstat(handle).st_size - begin) // RECORD.size
        end = begin + whole * RECORD.size
        last = SEQUENCE.unpack(os.pread(handle, SEQUENCE.size, end - RECORD.size))[0] if whole else -1
        missing = [row for row in ring.new() if row.sequence > last]
        os.ftruncate(handle, end)  # the process may have been killed in the middle of a record
        os.pwrite(handle, b"".join(RECORD.pack(*row) for row in missing), end)
    finally:
        os.close(handle)
    ring.path.unlink(missing_ok=True)
    return len(missing)


def _begin(handle: int) -> int | None:
    """Where the records of a step file begin; None when it is none."""
    preamble = os.pread(handle, PREAMBLE.size, 0)
    if len(preamble) < PREAMBLE.size:
        return None
    magic, length = PREAMBLE.unpack(preamble)
    return PREAMBLE.size + length if magic == STEPS_MAGIC else None


SILENT_S = 10.0  # a rank beats twice a second, also while it hangs


@dataclass(frozen=True)
class RankState:
    """The state of a rank by its ring."""

    rank: int
    steps: int
    silent_s: float
    closed: bool

    @property
    def alive(self) -> bool:
        """True when its monitor wrote to the ring lately."""
        return not self.closed and self.silent_s < SILENT_S


class RunRings:
    """The newest ring of each rank of a run folder; older starts of a rank are left alone."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder.absolute()
        self._folders = ring_folders(run_folder.absolute())
        self._rings: dict[int, RingReader] = {}
        self._bad: set[Path] = set()

    def refresh(self) -> tuple[int, ...]:
        """Looks for rings; the ranks whose ring is new."""
        known = {ring.path for ring in self._rings.values()} | self._bad
        new: list[int] = []
        for path in sorted(path for folder in self._folders for path in folder.glob(f"rank*{RING}")):
            if path not in known and self._open(path):
                new.append(self._rank_of(path))
        return tuple(new)

    def ranks(self) -> tuple[int, ...]:
        """The ranks whose rings are open."""
        return tuple(sorted(self._rings))

    def new(self) -> dict[int, list[StepRecord]]:
        """By rank, the records since the last call."""
        return {rank: list(self._rings[rank].new()) for rank in self.ranks()}

    def state(self, rank: int) -> RankState:
        """The state of one rank."""
        return _state(self._rings[rank])

    def world_size(self) -> int | None:
        """The number of ranks of the job, None when no launcher set it."""
        sizes = {ring.description.get("world_size") for ring in self._rings.values()}
        return max((size for size in sizes if isinstance(size, int)), default=None)

    def pids(self) -> set[int]:
        """The processes of the ranks."""
        return {int(ring.description["pid"]) for ring in self._rings.values()}

    def ask(self, rank: int, request: CaptureRequest) -> None:
        """Puts a capture request into a rank's ring."""
        self._rings[rank].ask(request)

    def answer(self, rank: int) -> tuple[int, int, int, str]:
        """A rank's answer to its last request: id, an ``Answer``, step, reason."""
        return self._rings[rank].answer()

    def drop(self, rank: int) -> None:
        """Lets go of the ring of a rank that ended."""
        self._clear(self._rings.pop(rank))

    def _rank_of(self, path: Path) -> int:
        return next(rank for rank, ring in self._rings.items() if ring.path == path)

    def _open(self, path: Path) -> bool:
        try:
            ring = RingReader(path)
        except (RingError, OSError):
            if path.exists():
                self._bad.add(path)
            return False
        older = self._rings.get(ring.rank)
        if older is not None and older.description["start_unix_ns"] >= ring.description["start_unix_ns"]:
            self._bad.add(path)
            ring.close()
            return False
        if older is not None and _state(ring).alive:
            self.drop(ring.rank)
        if not _state(ring).alive:
            self._clear(ring)
            return False
        self._rings[ring.rank] = ring
        return True

    def _clear(self, ring: RingReader) -> None:
        """Recover what an earlier run left behind once its process is gone."""
        self._bad.add(ring.path)
        if is_abandoned(ring):
            recover(ring, self._folder)
        ring.close()


def _state(ring: RingReader) -> RankState:
    written, heartbeat_ns, closed = ring.state()
    return RankState(ring.rank, written, max(time_ns() - heartbeat_ns, 0) / 1e9, closed)
