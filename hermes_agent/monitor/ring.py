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
    RECORD,
    RECORDS_AT,
    REQUEST,
    REQUEST_AT,
    RING_MAGIC,
    SEQUENCE,
    STATE,
    STATE_AT,
)


@dataclass(frozen=True)
class CaptureRequest:
    """What the node agent asks of a rank."""

    id: int
    steps: int
    first_step: int = -1  # -1: the next


class RingWriter:
    """Writes the ring of one rank; the file's space is reserved first, so that a full disk is no signal."""

    def __init__(self, path: Path, description: Description) -> None:
        self.path = path
        self.capacity = description.capacity
        self.written = 0
        size = RECORDS_AT + self.capacity * RECORD.size
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
        head = description.pack(RING_MAGIC)
        self.map[: len(head)] = head
        self.beat(description.start_unix_ns)

    def write(self, *fields: int) -> None:
        """Appends a record: all of its fields but the sequence number."""
        written = self.written
        RECORD.pack_into(self.map, RECORDS_AT + (written % self.capacity) * RECORD.size, written, *fields)
        self.written = written + 1
        SEQUENCE.pack_into(self.map, STATE_AT, written + 1)

    def since(self, first: int) -> tuple[int, list[bytes]]:
        """The raw records from ``first`` on as they lie in the ring, with the number of the first one still there."""
        first = max(first, self.written - self.capacity)
        begin, end = first % self.capacity, self.written % self.capacity
        if first == self.written:
            return first, []
        spans = [(begin, end)] if begin < end else [(begin, self.capacity), (0, end)]
        return first, [self.map[RECORDS_AT + a * RECORD.size : RECORDS_AT + b * RECORD.size] for a, b in spans if b > a]

    def beat(self, unix_ns: int, closed: bool = False) -> None:
        """Says that the rank is alive, or has ended in order."""
        STATE.pack_into(self.map, STATE_AT, self.written, unix_ns, int(closed))

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
        self.map.close()


def read_request(data: mmap.mmap) -> CaptureRequest | None:
    """The request block of a ring; None when its checksum does not fit."""
    packed = data[REQUEST_AT : REQUEST_AT + REQUEST.size]
    number, steps, first_step, checksum = REQUEST.unpack(packed)
    if zlib.crc32(packed[:-4]) != checksum:
        return None
    return CaptureRequest(number, steps, first_step)
