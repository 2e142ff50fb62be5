"""The ring of another process, never mapped, since its owner may shorten the file at any time; requests to it."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import Annotated, NamedTuple

import msgspec

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.format import RAW, SCHEMA, UNKNOWN_US, StepRecord
from hermes_agent.monitor.ring import CaptureRequest, row_spans
from hermes_agent.monitor.run_files import open_plain

LARGEST_CAPACITY = 1 << 20
LARGEST_RANK = 1 << 20
LARGEST_PID = 1 << 22  # PID_MAX_LIMIT of Linux
LARGEST_NUMBER = 1 << 53  # of a step, of a record
MOST_ROWS = 1 << 16  # read at once: the last ones, the others count as lost
SILENT_S = 10.0  # a rank beats about once a second, also while it hangs
LOOKS = 4  # at a state that is being written
Whole = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62) - 1)]


class RingError(ValueError):
    """The file is no ring that can be read; the message names it."""


class RingHead(msgspec.Struct):
    """The description at the head of a ring, as far as it is needed."""

    schema: str
    rank: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_RANK)]
    pid: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PID)]
    start_unix_ns: Whole
    capacity: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_CAPACITY)]


class RankState(NamedTuple):
    """Records written, the machine's clock at the last heartbeat (``perf_counter``, ns), and whether it was closed.

    The clock of all processes of a machine begins when it starts and never goes back; the time of day may.
    """

    steps: int
    beat_clock_ns: int
    closed: bool

    @property
    def alive(self) -> bool:
        """Return whether the rank's monitor wrote to the ring lately."""
        return not self.closed and 0 <= perf_counter_ns() - self.beat_clock_ns < SILENT_S * 1e9


class RingReader:
    """The ring of another process, with requests to it; only rings of ``owners``, of this user by default, are trusted.

    Raises RingError or OSError, also later on where the file was shortened meanwhile.
    """

    def __init__(self, path: Path, owners: Collection[int] = ()) -> None:
        self.path = path
        self._handle = open_plain(path, os.O_RDWR)
        self._next = 0
        try:
            about = os.fstat(self._handle)
            if reason := distrust(about, owners or (os.geteuid(),)):
                raise RingError(f"{path}: {reason}")
            self.head = self._head(about.st_size)
        except (RingError, OSError):
            os.close(self._handle)
            raise
        self.rank, self.slots = self.head.rank, self.head.capacity + 1

    def _head(self, size: int) -> RingHead:
        magic, length = layout.PREAMBLE.unpack(self._bytes(0, layout.PREAMBLE.size))
        if magic != layout.RING_MAGIC or length > layout.HEADER_BYTES - layout.PREAMBLE.size:
            raise RingError(f"{self.path}: is no ring of this monitor")
        try:
            head = msgspec.json.decode(self._bytes(layout.PREAMBLE.size, length), type=RingHead)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RingError(f"{self.path}: its description cannot be read ({error})") from error
        if head.schema != SCHEMA:
            raise RingError(f"{self.path}: is of schema {head.schema[:60]!r}, {SCHEMA!r} can be read; update hermes-dx")
        if size < layout.RECORDS_AT + (head.capacity + 1) * RAW.size:
            raise RingError(f"{self.path}: its description does not fit the file")
        return head

    def _bytes(self, at: int, size: int) -> bytes:
        data = os.pread(self._handle, size, at)
        if len(data) < size:
            raise RingError(f"{self.path}: ends before byte {at + size}, where more of the ring has to be")
        return data

    def state(self) -> RankState:
        """Return the state of the rank."""
        packed = self._bytes(layout.STATE_AT, layout.STATE.size)
        for _ in range(LOOKS):
            before, packed = packed, self._bytes(layout.STATE_AT, layout.STATE.size)
            if before[layout.SEQUENCE.size :] == packed[layout.SEQUENCE.size :]:
                break
        written, heartbeat_ns, closed, unix_at_zero_ns = layout.STATE.unpack(packed)
        return RankState(written, heartbeat_ns - unix_at_zero_ns, bool(closed))

    def new(self) -> Iterator[StepRecord]:
        """The records since the last call that are still there, oldest first."""
        written = self._written()
        first, self._next = self._next, written
        return self._records(first, written)

    def after(self, last: int) -> Iterator[StepRecord]:
        """The records after number ``last`` that are still there, whether or not they were returned before."""
        return self._records(last + 1, self._written())

    def _written(self) -> int:
        number: int = layout.SEQUENCE.unpack(self._bytes(layout.STATE_AT, layout.SEQUENCE.size))[0]
        if number > LARGEST_NUMBER:
            raise RingError(f"{self.path}: counts {number} steps, which no training has")
        return number

    def _records(self, first: int, written: int) -> Iterator[StepRecord]:
        first = max(first, written - min(self.head.capacity, MOST_ROWS), 0)
        if first >= written:
            return iter(())
        rows = b"".join(self._bytes(begin, end - begin) for begin, end in row_spans(first - 1, written, self.slots))
        unix_at_zero_ns = layout.STATE.unpack(self._bytes(layout.STATE_AT, layout.STATE.size))[3]
        records = layout.step_records(layout.packed_records(rows, unix_at_zero_ns))
        # What the writer may have begun to overwrite while it was copied is left out, also as the row before another.
        last_unsafe = self._written() - self.slots
        oldest = max(first, last_unsafe + 2 if last_unsafe >= 0 else 0)
        return (each for each in records if oldest <= each.sequence < written and _possible(each))

    def ask(self, request: CaptureRequest) -> None:
        """Put a request where the rank looks before its next step."""
        fields = layout.REQUEST.pack(request.id, request.steps, request.first_step, 0)[:-4]
        packed = fields + zlib.crc32(fields).to_bytes(4, "little")
        begin, id_bytes = layout.REQUEST_AT, layout.SEQUENCE.size
        os.pwrite(self._handle, packed[id_bytes:], begin + id_bytes)
        os.pwrite(self._handle, packed[:id_bytes], begin)  # the id last: it is what is seen

    def answer(self) -> tuple[int, int, int, str]:
        """Id of the request that was answered, an ``Answer``, the step, the reason."""
        packed = self._bytes(layout.ANSWER_AT, layout.ANSWER.size)
        request, answer, step, reason = layout.ANSWER.unpack(packed)
        return request, answer, step, reason.rstrip(b"\0").decode(errors="replace")

    def close(self) -> None:
        """Close the file; it stays."""
        os.close(self._handle)


def distrust(about: os.stat_result, owners: Collection[int]) -> str:
    """The reason why a ring, or a folder of rings, may hold what another user wrote; "" when it cannot."""
    if about.st_uid not in owners:
        ours = " or ".join(map(str, sorted(owners)))
        return f"belongs to user {about.st_uid}, not to user {ours}; it was left out, watch as user {about.st_uid}"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written by other users (mode {stat.S_IMODE(about.st_mode):o}); it was left out"
    return ""


def trusted_users(run_folder: Path) -> tuple[int, ...]:
    """The user of this process; for root, which may watch for anybody, also the owner of the run's records."""
    own = os.geteuid()
    if own != 0:
        return (own,)
    try:
        return tuple({own, layout.records_folder(run_folder).lstat().st_uid})
    except OSError:
        return (own,)


def _possible(record: StepRecord) -> bool:
    """Return whether the step took some time and has a number that can be added to."""
    return 0 < record.wall_us < UNKNOWN_US and abs(record.step) < LARGEST_NUMBER
