"""The ring: the last records of a rank in a file that outlives the process, with one writer."""

from __future__ import annotations

import mmap
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.monitor.description import Description
from hermes_agent.monitor.layout import (
    ANSWER,
    ANSWER_AT,
    BEAT,
    BEGIN_AT,
    RECORDS_AT,
    REQUEST,
    REQUEST_AT,
    RING_MAGIC,
    SEQUENCE,
    STATE,
    STATE_AT,
)
from hermes_agent.monitor.packing import packed_records
from hermes_agent.monitor.raw import RAW, WRITTEN_WORD, RawStep


@dataclass(frozen=True)
class CaptureRequest:
    """What the node agent asks of a rank."""

    id: int
    steps: int
    first_step: int = -1  # -1: the next


class RingWriter:
    """Makes the ring of one rank; the file's space is reserved first, so that a full disk is no signal.

    ``Monitor.step`` stores the records itself, into ``view``; ``slots`` is one more than the records that are kept, for
    the one before the oldest.
    """

    def __init__(self, path: Path, description: Description) -> None:
        self.path = path
        self.capacity = description.capacity
        self.slots = self.capacity + 1
        size = RECORDS_AT + self.slots * RAW.size
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(handle, 0, size)
            # Mapped with its pages, so that no step has to wait for one.
            self.map = mmap.mmap(handle, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        self.view = memoryview(self.map).cast("q")  # of this machine's byte order: the ring does not leave it
        head = description.pack(RING_MAGIC)
        self.map[: len(head)] = head
        self.beat(description.start_unix_ns, 0)

    @property
    def written(self) -> int:
        """How many records were written."""
        return self.view[WRITTEN_WORD]

    def begin(self, row: RawStep) -> None:
        """Where the first step begins."""
        RAW.pack_into(self.map, BEGIN_AT, *row._replace(sequence=-1))

    def put(self, row: RawStep) -> None:
        """Appends a record; the training thread does the same without the detour."""
        RAW.pack_into(self.map, RECORDS_AT + row.sequence % self.slots * RAW.size, *row)
        self.view[WRITTEN_WORD] = row.sequence + 1

    def since(self, first: int) -> tuple[int, bytes]:
        """The packed records from ``first`` on that are still there, and the number of the next one."""
        written = self.written
        first = max(first, written - self.capacity)
        if first == written:
            return written, b""
        unix_at_zero_ns = STATE.unpack_from(self.map, STATE_AT)[3]
        return written, packed_records(self._rows(first - 1, written), unix_at_zero_ns)

    def _rows(self, first: int, end: int) -> bytes:
        """The rows from ``first`` on, -1 for the begin, as they lie in the ring; no more than it has slots."""
        if first < 0:
            return self.map[BEGIN_AT : BEGIN_AT + RAW.size] + self._rows(0, end)
        begin, stop = first % self.slots, (end - 1) % self.slots + 1
        if begin < stop:
            return self._slots(begin, stop)
        return self._slots(begin, self.slots) + self._slots(0, stop)

    def _slots(self, begin: int, stop: int) -> bytes:
        return self.map[RECORDS_AT + begin * RAW.size : RECORDS_AT + stop * RAW.size]

    def beat(self, unix_ns: int, clock_ns: int, closed: bool = False) -> None:
        """Says that the rank is alive, or has ended in order, and what time it is."""
        BEAT.pack_into(self.map, STATE_AT + SEQUENCE.size, unix_ns, int(closed), unix_ns - clock_ns)

    def requested(self) -> int:
        """Id of the last request, 0 for none: cheap enough for every step."""
        number: int = SEQUENCE.unpack_from(self.map, REQUEST_AT)[0]
        return number

    def request(self) -> CaptureRequest | None:
        """The last request; None while it is being written or when it is damaged."""
        return read_request(self.map)

    def answer(self, request: int, answer: int, step: int, reason: str = "") -> None:
        """What became of a request, for the agent to read."""
        ANSWER.pack_into(self.map, ANSWER_AT, request, answer, step, reason.encode()[:96])

    def close(self) -> None:
        """Unmaps the ring; the file stays."""
        self.view.release()
        self.map.close()


def read_request(data: mmap.mmap) -> CaptureRequest | None:
    """The request block of a ring; None when its checksum does not fit."""
    packed = data[REQUEST_AT : REQUEST_AT + REQUEST.size]
    number, steps, first_step, checksum = REQUEST.unpack(packed)
    if zlib.crc32(packed[:-4]) != checksum:
        return None
    return CaptureRequest(number, steps, first_step)
