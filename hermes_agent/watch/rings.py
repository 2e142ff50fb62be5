"""The rings of a run on this machine, capture requests to them, and the recovery of what a killed process left."""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.format import StepRecord
from hermes_agent.monitor.ring import CaptureRequest
from hermes_agent.monitor.run_files import (
    MOST_ENTRIES,
    capture_names,
    captured_bytes,
    listing,
    open_plain,
    remove,
    write_all,
)
from hermes_agent.watch.left_out import LeftOut
from hermes_agent.watch.ring_reader import RankState, RingError, RingReader, distrust, trusted_users

MOST_RINGS = 256  # open at once: each rank of a machine has one
MOST_LOOKS = 3  # at a ring that cannot be read: its owner may be just making it
RING = re.compile(rf"rank.*{re.escape(layout.RING)}\Z", re.DOTALL)
CAPTURE = re.compile(rf"{layout.CAPTURES}([0-9]{{1,9}})\Z")
LARGEST_REQUEST = 10**9 - 1
ENDED = RankState(0, 0, True)
NO_ANSWER = (0, 0, -1, "")
T = TypeVar("T")


def is_abandoned(ring: RingReader) -> bool:
    """Return whether the process of a silent or closed ring is gone."""
    return not psutil.pid_exists(ring.head.pid)


class _StepsHead(msgspec.Struct):
    rank: int
    pid: int
    start_unix_ns: int
    fields: list[tuple[str, str]]


def recover(ring: RingReader, run_folder: Path) -> int:
    """Append the records that the step file lacks, remove the ring, return their number.

    Without the file, or where it is of another start or version, nothing is done and 0 returned. Raises RingError or
    OSError.
    """
    file = layout.records_folder(run_folder) / f"{ring.path.stem}{layout.STEPS}"
    try:
        handle = open_plain(file, os.O_RDWR)
    except FileNotFoundError:
        return 0
    try:
        begin = _begin(handle, ring)
        if begin is None:
            return 0
        size = layout.RECORD.size
        whole = (os.fstat(handle).st_size - begin) // size
        end = begin + whole * size
        last = layout.SEQUENCE.unpack(os.pread(handle, layout.SEQUENCE.size, end - size))[0] if whole else -1
        missing = list(ring.after(last))
        os.ftruncate(handle, end)  # the process may have been killed in the middle of a record
        os.lseek(handle, end, os.SEEK_SET)
        write_all(handle, b"".join(layout.RECORD.pack(*row) for row in missing))
    finally:
        os.close(handle)
    remove(ring.path)
    return len(missing)


def _begin(handle: int, ring: RingReader) -> int | None:
    """Where the records of the ring's step file begin; None when it is not that."""
    preamble = os.pread(handle, layout.PREAMBLE.size, 0)
    if len(preamble) < layout.PREAMBLE.size:
        return None
    magic, length = layout.PREAMBLE.unpack(preamble)
    if magic != layout.STEPS_MAGIC or length > layout.HEADER_BYTES:
        return None
    text = os.pread(handle, length, layout.PREAMBLE.size)
    try:
        head = msgspec.json.decode(text, type=_StepsHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    of_ring = (ring.head.rank, ring.head.pid, ring.head.start_unix_ns)
    same = (head.rank, head.pid, head.start_unix_ns) == of_ring and tuple(head.fields) == layout.FIELDS
    return layout.PREAMBLE.size + length if same and len(text) == length else None


class RunRings:
    """The newest ring of each rank of a run folder; older starts of a rank are left alone.

    Whatever lies there, no method raises: what cannot be used is noted in ``left_out``.
    """

    def __init__(self, run_folder: Path, left_out: LeftOut | None = None) -> None:
        self._folder = run_folder.absolute()
        self._rings: dict[int, RingReader] = {}
        self._bad: set[Path] = set()
        self._failed: Counter[Path] = Counter()  # looks at rings that could not be read
        self._broken: set[int] = set()  # ranks whose open ring cannot be read any more
        self.left_out = left_out or LeftOut()

    def refresh(self) -> tuple[int, ...]:
        """Look for rings; return the ranks whose ring is new."""
        users = trusted_users(self._folder)
        found = self._listed(users)
        self._bad &= found
        self._failed = Counter({path: count for path, count in self._failed.items() if path in found})
        known = {ring.path for ring in self._rings.values()} | self._bad
        opened = [self._open(path, users) for path in sorted(found - known, key=os.fsencode)]
        return tuple(rank for rank in opened if rank is not None)

    def _listed(self, users: tuple[int, ...]) -> set[Path]:
        """The rings in all places where rings of the run may be."""
        records = layout.records_folder(self._folder)
        found: set[Path] = set()
        for folder in {layout.ring_folders(self._folder, user)[0] for user in users} | {records}:
            try:
                if folder != records and (reason := distrust(folder.parent.lstat(), users)):
                    self.left_out.add(f"{folder.parent}: {reason}")
                    continue
                listed = listing(folder, RING)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.left_out.add(f"{folder}: cannot be listed ({error.strerror})")
                continue
            if listed.more:
                self.left_out.add(f"{folder} holds more than {MOST_ENTRIES} files; the others were not looked at")
            for name in (*listed.folders, *listed.others)[:MOST_RINGS]:
                self.left_out.add(f"{folder / name}: is no plain file; it was left out")
            found |= {folder / name for name in listed.files}
        return found

    def ranks(self) -> tuple[int, ...]:
        """The ranks whose rings are open."""
        return tuple(sorted(self._rings))

    def new(self) -> dict[int, list[StepRecord]]:
        """By rank, the records since the last call."""
        return {rank: self._read(rank, lambda ring: list(ring.new()), []) for rank in self.ranks()}

    def state(self, rank: int) -> RankState:
        """The state of one rank; of one whose ring cannot be read any more, that it has ended."""
        return self._read(rank, RingReader.state, ENDED)

    def answer(self, rank: int) -> tuple[int, int, int, str]:
        """What a rank answered last: id of the request, an ``Answer``, the step, the reason."""
        return self._read(rank, RingReader.answer, NO_ANSWER)

    def ask(self, rank: int, request: CaptureRequest) -> bool:
        """Put a request to a rank; False where its ring does not take it."""

        def put(ring: RingReader) -> bool:
            ring.ask(request)
            return True

        return self._read(rank, put, False)

    def pids(self) -> dict[int, int]:
        """The processes of the ranks, by rank."""
        return {rank: ring.head.pid for rank, ring in self._rings.items()}

    def __getitem__(self, rank: int) -> RingReader:
        """Return the ring of a rank."""
        return self._rings[rank]

    def drop(self, rank: int) -> None:
        """Close the ring of a rank that has ended."""
        self._broken.discard(rank)
        self._clear(self._rings.pop(rank))

    def _read(self, rank: int, read: Callable[[RingReader], T], otherwise: T) -> T:
        if rank in self._broken:
            return otherwise
        try:
            return read(self._rings[rank])
        except (RingError, OSError) as error:
            self.left_out.add(f"rank {rank} is not watched any more: {error}")
            self._broken.add(rank)
            return otherwise

    def _open(self, path: Path, users: tuple[int, ...]) -> int | None:
        """The rank whose newest ring this is; None where it is an older, damaged or abandoned one."""
        if len(self._rings) >= MOST_RINGS:
            self.left_out.add(f"{path} and others: more than {MOST_RINGS} ranks run on this machine")
            return None
        try:
            ring = RingReader(path, users)
        except FileNotFoundError:
            return None
        except (RingError, OSError) as error:
            self._failed[path] += 1
            if self._failed[path] >= MOST_LOOKS:
                self._bad.add(path)
                self.left_out.add(str(error) if isinstance(error, RingError) else f"{path}: {error.strerror}")
            return None
        try:
            return self._watched(ring)
        except (RingError, OSError) as error:
            self._bad.add(path)
            self.left_out.add(f"{path}: {error}")
            ring.close()
            return None

    def _watched(self, ring: RingReader) -> int | None:
        """The ring's rank where it is watched from now on."""
        if not ring.state().alive:
            self._clear(ring)
            return None
        older = self._rings.get(ring.rank)
        if older is not None:
            # By start only where both run: the time of day may have gone back between two starts.
            if older.head.start_unix_ns >= ring.head.start_unix_ns and self.state(ring.rank).alive:
                self._bad.add(ring.path)
                ring.close()
                return None
            self.drop(ring.rank)
        self._rings[ring.rank] = ring
        return ring.rank

    def _clear(self, ring: RingReader) -> None:
        """Recover what an earlier run left behind once its process is gone."""
        self._bad.add(ring.path)
        try:
            if is_abandoned(ring):
                recover(ring, self._folder)
        except (RingError, OSError) as error:
            self.left_out.add(f"the last steps of rank {ring.rank} could not be taken over: {error}")
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
        if captured_bytes(self._folder) >= limits.total_bytes:
            return f"the captures fill {limits.total_bytes} bytes"
        return ""

    def by_hand(self, ranks: Sequence[int], steps: int, last_step: int) -> RequestedCapture:
        """Request a capture for a person; only the ranks' own limits hold."""
        number = max(self._last_id, self._highest()) + 1
        if number > LARGEST_REQUEST:
            return RequestedCapture(0, tuple(ranks), steps, "the numbers of captures are used up")
        self._last_id = number
        request = CaptureRequest(number, steps, last_step + AHEAD)
        asked = tuple(rank for rank in ranks if self._rings.ask(rank, request))
        return RequestedCapture(number, asked, steps, "" if asked else "the ranks' rings take no request")

    def _highest(self) -> int:
        """The highest id in use: of the captures in the folder, and of the ranks' answers."""
        names: tuple[str, ...] = ()
        with suppress(OSError):  # then the writer of a trace meets what lies there
            names = capture_names(self._folder)
        found = [int(match[1]) for name in names if (match := CAPTURE.match(name))]
        answered = [self._rings.answer(rank)[0] for rank in self._rings.ranks()]
        return max((each for each in found + answered if each < LARGEST_REQUEST), default=0)
