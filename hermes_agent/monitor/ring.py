"""The ring of one rank, in shared memory, as the rank writes it (``hermes_agent.watch.ring_reader`` reads it)."""

from __future__ import annotations

import mmap
import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.format import RAW, Description, RawStep
from hermes_agent.monitor.run_files import create, make_folder, remove


@dataclass(frozen=True)
class CaptureRequest:
    """A capture that the node agent requests from a rank."""

    id: int
    steps: int
    first_step: int = -1  # -1: the next


def row_spans(first: int, end: int, slots: int) -> list[tuple[int, int]]:
    """Where in a ring of so many slots the rows ``first`` to ``end`` lie, -1 for the begin: one, two or three spans."""
    if first < 0:
        return [(layout.BEGIN_AT, layout.BEGIN_AT + RAW.size), *row_spans(0, end, slots)]
    begin, stop = (layout.RECORDS_AT + slot * RAW.size for slot in (first % slots, (end - 1) % slots + 1))
    last = layout.RECORDS_AT + slots * RAW.size
    return [(begin, stop)] if begin < stop else [(begin, last), (layout.RECORDS_AT, stop)]


class RingWriter:
    """The ring of one rank, its space reserved first; ``Monitor.step`` stores the rows itself, into ``view``.

    ``slots`` is one more than the records that stay, for the one before the oldest.
    """

    def __init__(self, path: Path, description: Description) -> None:
        size = layout.RECORDS_AT + (description.capacity + 1) * RAW.size
        handle = create(path, os.O_RDWR)
        try:
            os.posix_fallocate(handle, 0, size)
            # Mapped with its pages, so that no step has to wait for one.
            self.map = mmap.mmap(handle, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        except OSError:
            remove(path)
            raise
        finally:
            os.close(handle)
        self.path, self.capacity, self.slots = path, description.capacity, description.capacity + 1
        self.view = memoryview(self.map).cast("q")  # of this machine's byte order: the ring does not leave it
        head = description.pack(layout.RING_MAGIC)
        self.map[: len(head)] = head
        clock_ns = perf_counter_ns()
        self._unix_at_zero_ns = description.start_unix_ns - clock_ns
        self.beat(description.start_unix_ns, clock_ns)

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
        if first == written:
            return written, b""
        rows = b"".join(self.map[begin:end] for begin, end in row_spans(first - 1, written, self.slots))
        return written, layout.packed_records(rows, self._unix_at_zero_ns)

    def beat(self, unix_ns: int, clock_ns: int, closed: bool = False) -> None:
        """Note that the rank is alive, or has ended in order, and what time it is.

        The time of day follows the machine's where that goes ahead. Where it is set back the records go on: one start's
        times never fall.
        """
        self._unix_at_zero_ns = max(self._unix_at_zero_ns, unix_ns - clock_ns)
        at = layout.STATE_AT + layout.SEQUENCE.size
        layout.BEAT.pack_into(self.map, at, self.unix_ns(clock_ns), int(closed), self._unix_at_zero_ns)

    def unix_ns(self, clock_ns: int) -> int:
        """The time of day at a time of ``perf_counter_ns``, as the records have it."""
        return clock_ns + self._unix_at_zero_ns

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


def open_ring_folder(run_folder: Path, bytes_needed: int) -> Path:
    """A folder of our own for the ring: in shared memory where there is room, else next to the records."""
    shared, records = layout.ring_folders(run_folder)
    if _usable(shared, bytes_needed):
        return shared
    make_folder(records)
    return records


def _usable(folder: Path, bytes_needed: int) -> bool:
    try:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        about = folder.parent.lstat()
        others_may_write = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or others_may_write:
            return False
        folder.mkdir(mode=0o700, exist_ok=True)
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize > 4 * bytes_needed
