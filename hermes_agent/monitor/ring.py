"""The ring of one rank, in shared memory: its writer, and the node agent's reader, which also puts requests into it."""

from __future__ import annotations

import json
import mmap
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.format import RAW, Description, RawStep, StepRecord

LARGEST_CAPACITY = 1 << 20
SILENT_S = 10.0  # a rank beats twice a second, also while it hangs


class RingError(ValueError):
    """The file is no ring that can be read."""


@dataclass(frozen=True)
class CaptureRequest:
    """A capture that the node agent requests from a rank."""

    id: int
    steps: int
    first_step: int = -1  # -1: the next


class RankState(NamedTuple):
    """Records written, the last heartbeat (unix ns), and whether the ring was closed in order."""

    steps: int
    heartbeat_ns: int
    closed: bool

    @property
    def alive(self) -> bool:
        """Return whether the rank's monitor wrote to the ring lately."""
        return not self.closed and time_ns() - self.heartbeat_ns < SILENT_S * 1e9


class _Ring:
    """The mapped file; ``slots`` is one more than the records that stay, for the one before the oldest."""

    def __init__(self, path: Path, mapped: mmap.mmap, capacity: int) -> None:
        self.path, self.map, self.capacity, self.slots = path, mapped, capacity, capacity + 1

    def packed(self, first: int, end: int) -> bytes:
        """The packed records ``first`` to ``end``, which is not included; no more than the ring holds."""
        unix_at_zero_ns = layout.STATE.unpack_from(self.map, layout.STATE_AT)[3]
        return layout.packed_records(self._rows(first - 1, end), unix_at_zero_ns)

    def _rows(self, first: int, end: int) -> bytes:
        """The rows from ``first`` on, -1 for the begin."""
        if first < 0:
            return self.map[layout.BEGIN_AT : layout.BEGIN_AT + RAW.size] + self._rows(0, end)
        begin, stop = (layout.RECORDS_AT + slot * RAW.size for slot in (first % self.slots, (end - 1) % self.slots + 1))
        last = layout.RECORDS_AT + self.slots * RAW.size
        return self.map[begin:stop] if begin < stop else self.map[begin:last] + self.map[layout.RECORDS_AT : stop]


class RingWriter(_Ring):
    """The ring of one rank, its space reserved first; ``Monitor.step`` stores the rows itself, into ``view``."""

    def __init__(self, path: Path, description: Description) -> None:
        size = layout.RECORDS_AT + (description.capacity + 1) * RAW.size
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(handle, 0, size)
            # Mapped with its pages, so that no step has to wait for one.
            mapped = mmap.mmap(handle, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        super().__init__(path, mapped, description.capacity)
        self.view = memoryview(self.map).cast("q")  # of this machine's byte order: the ring does not leave it
        head = description.pack(layout.RING_MAGIC)
        self.map[: len(head)] = head
        self.beat(description.start_unix_ns, 0)

    @property
    def written(self) -> int:
        """The number of records written so far."""
        return self.view[layout.WRITTEN_WORD]

    def begin(self, row: RawStep) -> None:
        """Mark where the first step begins."""
        RAW.pack_into(self.map, layout.BEGIN_AT, *row._replace(sequence=-1))

    def since(self, first: int) -> tuple[int, bytes]:
        """Return the number of the next record, and the packed ones from ``first`` on that are still there."""
        written = self.written
        first = max(first, written - self.capacity)
        return written, b"" if first == written else self.packed(first, written)

    def beat(self, unix_ns: int, clock_ns: int, closed: bool = False) -> None:
        """Note that the rank is alive, or has ended in order, and what time it is."""
        at = layout.STATE_AT + layout.SEQUENCE.size
        layout.BEAT.pack_into(self.map, at, unix_ns, int(closed), unix_ns - clock_ns)

    def requested(self) -> int:
        """Id of the last request, 0 for none: cheap enough for every step."""
        number: int = layout.SEQUENCE.unpack_from(self.map, layout.REQUEST_AT)[0]
        return number

    def request(self) -> CaptureRequest | None:
        """The last request; None while it is being written or when it is damaged."""
        packed = self.map[layout.REQUEST_AT : layout.REQUEST_AT + layout.REQUEST.size]
        number, steps, first_step, checksum = layout.REQUEST.unpack(packed)
        return CaptureRequest(number, steps, first_step) if zlib.crc32(packed[:-4]) == checksum else None

    def answer(self, request: int, answer: int, step: int, reason: str = "") -> None:
        """Leave for the agent what became of a request."""
        layout.ANSWER.pack_into(self.map, layout.ANSWER_AT, request, answer, step, reason.encode()[:96])

    def close(self) -> None:
        """Unmap the ring; the file stays."""
        self.view.release()
        self.map.close()


class RingReader(_Ring):
    """The ring of another process, with requests to it."""

    def __init__(self, path: Path) -> None:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            mapped = mmap.mmap(handle, 0)
        except ValueError as error:
            raise RingError(f"{path}: is empty") from error
        finally:
            os.close(handle)
        self.description = _description(path, mapped)
        super().__init__(path, mapped, int(self.description["capacity"]))
        self.rank = int(self.description["rank"])
        self._next = 0

    def state(self) -> RankState:
        """Return the state of the rank."""
        written, heartbeat_ns, closed, _ = layout.STATE.unpack_from(self.map, layout.STATE_AT)
        return RankState(written, heartbeat_ns, bool(closed))

    def new(self) -> Iterator[StepRecord]:
        """The records since the last call that are still there, oldest first."""
        written = self.state()[0]
        first = max(self._next, written - self.capacity, 0)
        self._next = written
        if first >= written:
            return iter(())
        records = layout.step_records(self.packed(first, written))
        # What the writer may have begun to overwrite while it was copied is left out, also as the row before another.
        last_unsafe = self.state()[0] - self.slots
        oldest = last_unsafe + 2 if last_unsafe >= 0 else 0
        return (each for each in records if each.sequence >= oldest)

    def ask(self, request: CaptureRequest) -> None:
        """Put a request where the rank looks before its next step."""
        fields = layout.REQUEST.pack(request.id, request.steps, request.first_step, 0)[:-4]
        packed = fields + zlib.crc32(fields).to_bytes(4, "little")
        begin, id_bytes = layout.REQUEST_AT, layout.SEQUENCE.size
        self.map[begin + id_bytes : begin + len(packed)] = packed[id_bytes:]
        self.map[begin : begin + id_bytes] = packed[:id_bytes]  # the id last: it is what is seen

    def answer(self) -> tuple[int, int, int, str]:
        """Id of the request that was answered, an ``Answer``, the step, the reason."""
        request, answer, step, reason = layout.ANSWER.unpack_from(self.map, layout.ANSWER_AT)
        return request, answer, step, reason.rstrip(b"\0").decode(errors="replace")

    def close(self) -> None:
        """Unmap the ring."""
        self.map.close()


def _description(path: Path, mapped: mmap.mmap) -> dict[str, Any]:
    try:
        magic, length = layout.PREAMBLE.unpack_from(mapped, 0)
        if magic != layout.RING_MAGIC or length > layout.HEADER_BYTES - layout.PREAMBLE.size:
            raise RingError(f"{path}: is no ring of this monitor")
        about: dict[str, Any] = json.loads(mapped[layout.PREAMBLE.size : layout.PREAMBLE.size + length])
        capacity, rank, pid = about["capacity"], about["rank"], about["pid"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise RingError(f"{path}: its description cannot be read ({error})") from error
    known = about.get("schema") == layout.SCHEMA and all(isinstance(each, int) for each in (capacity, rank, pid))
    if not known or not 0 < capacity <= LARGEST_CAPACITY or len(mapped) < layout.RECORDS_AT + (capacity + 1) * RAW.size:
        raise RingError(f"{path}: its description does not fit the file")
    return about


def open_ring_folder(run_folder: Path, bytes_needed: int) -> Path:
    """A folder of our own for the ring: in shared memory where there is room, else next to the records."""
    shared, records = layout.ring_folders(run_folder)
    if _usable(shared, bytes_needed):
        return shared
    records.mkdir(parents=True, exist_ok=True)
    return records


def _usable(folder: Path, bytes_needed: int) -> bool:
    try:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        about = folder.parent.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
            return False
        folder.mkdir(mode=0o700, exist_ok=True)
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize > 4 * bytes_needed
