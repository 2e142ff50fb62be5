"""The rings of a run on this machine, capture requests to them, and the recovery of what a killed process left."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.format import StepRecord
from hermes_agent.monitor.ring import CaptureRequest, RankState, RingError, RingReader


def is_abandoned(ring: RingReader) -> bool:
    """Return whether the process of a silent or closed ring is gone."""
    return not psutil.pid_exists(int(ring.description["pid"]))


def recover(ring: RingReader, run_folder: Path) -> int:
    """Append the records that the step file lacks, remove the ring, return their number; 0 without the file."""
    file = layout.records_folder(run_folder) / f"{ring.path.stem}{layout.STEPS}"
    if not file.is_file() or file.is_symlink():
        return 0
    handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
    try:
        begin = _begin(handle)
        if begin is None:
            return 0
        size = layout.RECORD.size
        whole = (os.fstat(handle).st_size - begin) // size
        end = begin + whole * size
        last = layout.SEQUENCE.unpack(os.pread(handle, layout.SEQUENCE.size, end - size))[0] if whole else -1
        missing = [row for row in ring.new() if row.sequence > last]
        os.ftruncate(handle, end)  # the process may have been killed in the middle of a record
        os.pwrite(handle, b"".join(layout.RECORD.pack(*row) for row in missing), end)
    finally:
        os.close(handle)
    ring.path.unlink(missing_ok=True)
    return len(missing)


def _begin(handle: int) -> int | None:
    """Where the records of a step file begin; None when it is none."""
    size = layout.PREAMBLE.size
    magic, length = layout.PREAMBLE.unpack(os.pread(handle, size, 0).ljust(size, b"\0"))
    return size + length if magic == layout.STEPS_MAGIC else None


class RunRings:
    """The newest ring of each rank of a run folder; older starts of a rank are left alone."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder.absolute()
        self._folders = layout.ring_folders(run_folder.absolute())
        self._rings: dict[int, RingReader] = {}
        self._bad: set[Path] = set()

    def refresh(self) -> tuple[int, ...]:
        """Look for rings; return the ranks whose ring is new."""
        known = {ring.path for ring in self._rings.values()} | self._bad
        paths = sorted(path for folder in self._folders for path in folder.glob(f"rank*{layout.RING}"))
        opened = [self._open(path) for path in paths if path not in known]
        return tuple(rank for rank in opened if rank is not None)

    def ranks(self) -> tuple[int, ...]:
        """The ranks whose rings are open."""
        return tuple(sorted(self._rings))

    def new(self) -> dict[int, list[StepRecord]]:
        """By rank, the records since the last call."""
        return {rank: list(self._rings[rank].new()) for rank in self.ranks()}

    def state(self, rank: int) -> RankState:
        """The state of one rank."""
        return self._rings[rank].state()

    def pids(self) -> dict[int, int]:
        """The processes of the ranks, by rank."""
        return {rank: int(ring.description["pid"]) for rank, ring in self._rings.items()}

    def __getitem__(self, rank: int) -> RingReader:
        """Return the ring of a rank."""
        return self._rings[rank]

    def drop(self, rank: int) -> None:
        """Close the ring of a rank that has ended."""
        self._clear(self._rings.pop(rank))

    def _open(self, path: Path) -> int | None:
        """The rank whose newest ring this is; None where it is an older, damaged or abandoned one."""
        try:
            ring = RingReader(path)
        except (RingError, OSError):
            if path.exists():
                self._bad.add(path)
            return None
        older = self._rings.get(ring.rank)
        if older is not None and older.description["start_unix_ns"] >= ring.description["start_unix_ns"]:
            self._bad.add(path)
            ring.close()
            return None
        if older is not None and ring.state().alive:
            self.drop(ring.rank)
        if not ring.state().alive:
            self._clear(ring)
            return None
        self._rings[ring.rank] = ring
        return ring.rank

    def _clear(self, ring: RingReader) -> None:
        """Recover what an earlier run left behind once its process is gone."""
        self._bad.add(ring.path)
        if is_abandoned(ring):
            recover(ring, self._folder)
        ring.close()


HOUR_S = 3600.0
AHEAD = 2  # steps between the request and its begin, so that all ranks profile the same ones


@dataclass(frozen=True)
class RequestLimits:
    """Limits of what the agent requests by itself; a rank has limits of its own on top."""

    steps: int = 3
    per_hour: int = 4
    apart_s: float = 15.0  # after the first capture, twice as long after each further one within the hour
    worse: float = 1.5  # times the cost of the last one: so much worse need not wait
    unclear_per_hour: int = 2  # of them without a suspect: the others are kept for a rank that can be named
    total_bytes: int = 1 << 30


@dataclass(frozen=True)
class RequestedCapture:
    """A request that was put to ranks, or why it was not."""

    request: int
    ranks: tuple[int, ...]
    steps: int
    refused: str = ""


@dataclass(frozen=True)
class WantedCapture:
    """The ranks to profile, what the anomaly costs per step, and whether a rank is suspect of it."""

    ranks: tuple[int, ...]
    cost_ms: float
    named: bool


@dataclass(frozen=True)
class _Made:
    at_s: float
    wanted: WantedCapture


class CaptureRequests:
    """The capture requests of one run folder; times are seconds of a monotonic clock."""

    def __init__(self, run_folder: Path, rings: RunRings, limits: RequestLimits) -> None:
        self._folder, self._rings, self._limits = run_folder, rings, limits
        self._made: deque[_Made] = deque()
        self._last_id = 0

    def by_itself(self, wanted: WantedCapture, last_step: int, now_s: float) -> RequestedCapture:
        """Request a capture for an anomaly, within the limits."""
        limits = self._limits
        while self._made and now_s - self._made[0].at_s > HOUR_S:
            self._made.popleft()
        if refused := self._objection(wanted, now_s):
            return RequestedCapture(0, wanted.ranks, limits.steps, refused)
        self._made.append(_Made(now_s, wanted))
        return self.by_hand(wanted.ranks, limits.steps, last_step)

    def _objection(self, wanted: WantedCapture, now_s: float) -> str:
        limits = self._limits
        if len(self._made) >= limits.per_hour:
            return f"{limits.per_hour} captures were made within the hour"
        if not wanted.named and sum(not each.wanted.named for each in self._made) >= limits.unclear_per_hour:
            return f"{limits.unclear_per_hour} captures without a suspect were made within the hour"
        if self._made:
            last = self._made[-1]
            pause_s = limits.apart_s * 2.0 ** (len(self._made) - 1)
            stronger = wanted.cost_ms >= limits.worse * last.wanted.cost_ms or wanted.named > last.wanted.named
            if now_s - last.at_s < pause_s and not stronger:
                return f"the last capture was less than {pause_s:.0f} s ago"
        if layout.captured_bytes(self._folder) >= limits.total_bytes:
            return f"the captures fill {limits.total_bytes} bytes"
        return ""

    def by_hand(self, ranks: Sequence[int], steps: int, last_step: int) -> RequestedCapture:
        """Request a capture for a person; only the ranks' own limits hold."""
        self._last_id = max(self._last_id, self._highest()) + 1
        for rank in ranks:
            self._rings[rank].ask(CaptureRequest(self._last_id, steps, last_step + AHEAD))
        return RequestedCapture(self._last_id, tuple(ranks), steps)

    def _highest(self) -> int:
        """The highest id in use: of the captures in the folder, and of the ranks' answers."""
        names = [folder.name.removeprefix(layout.CAPTURES) for folder in self._folder.glob(f"{layout.CAPTURES}*")]
        answered = [self._rings[rank].answer()[0] for rank in self._rings.ranks()]
        return max([int(name) for name in names if name.isdigit()] + answered, default=0)
