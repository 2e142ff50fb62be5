"""Rows of a ring as packed step records: what the flushing thread does with every step, hence flat and plain."""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.monitor.description import Description
from hermes_agent.monitor.format import (
    ANSWER,
    ANSWER_AT,
    BEAT,
    BEGIN_AT,
    RECORD,
    RECORDS_AT,
    REQUEST,
    REQUEST_AT,
    RING_MAGIC,
    SEQUENCE,
    STATE,
    STATE_AT,
    UNKNOWN_DEPTH,
    UNKNOWN_US,
)
from hermes_agent.monitor.raw import DEPTH_BITS, RAW, WRITTEN_WORD, RawStep, records

MASK = (1 << DEPTH_BITS) - 1
UNCOUNTED = (UNKNOWN_US,) * 3


def packed_records(rows: bytes, unix_at_zero_ns: int) -> bytes:
    """The records of all rows but the first, which is the one before; as ``raw.records`` tells them.

    A row whose predecessor does not come just before it is left out.
    """
    try:
        return _plain(rows, unix_at_zero_ns)
    except struct.error:  # a number does not fit its field: a sum fell, or a step took longer than an hour
        each = records(map(RawStep._make, RAW.iter_unpack(rows)), unix_at_zero_ns)
        return b"".join(RECORD.pack(*one) for one in each)


def _plain(rows: bytes, unix_at_zero_ns: int) -> bytes:
    """Without bounds: ``struct.error`` where a number is out of them, or is the mark of an unknown one."""
    pack, done = RECORD.pack, []
    unpacked = RAW.iter_unpack(rows)
    last, _, clock_0, cpu_0, _, data_0, waiting_0, gc_0, runs_0, fetches_0, *_ = next(unpacked)
    for row in unpacked:
        number, step, clock, cpu, samples, data, waiting, gc, runs, fetches, ready, longest, depths, flags, _, _ = row
        if number == last + 1:
            one = two = three = UNKNOWN_DEPTH
            if depths and fetches > fetches_0:
                one = (depths & MASK) - 1
                two = (depths >> DEPTH_BITS & MASK) - 1
                three = (depths >> 2 * DEPTH_BITS & MASK) - 1
            wall, data_us, waiting_us = (
                (clock - clock_0) // 1000 or 1,
                (data - data_0) // 1000,
                (waiting - waiting_0) // 1000,
            )
            own_us = (ready - clock_0) // 1000 if ready > clock_0 else -1
            gc_us, longest_us, cpu_us = (gc - gc_0) // 1000, longest // 1000, (cpu - cpu_0) // 1000
            more_runs, more_fetches = runs - runs_0, fetches - fetches_0
            told = (wall, data_us, own_us, waiting_us, gc_us, longest_us, more_runs, cpu_us, more_fetches, samples)
            if UNKNOWN_US in told:
                raise struct.error("a number that would read as unknown")
            own_us = UNKNOWN_US if own_us < 0 else own_us
            at = clock + unix_at_zero_ns
            times = (wall, data_us, own_us, waiting_us, gc_us, longest_us, more_runs, cpu_us)
            done.append(pack(number, step, at, *times, *UNCOUNTED, more_fetches, samples, one, two, three, flags))
        last, clock_0, cpu_0, data_0, waiting_0 = number, clock, cpu, data, waiting
        gc_0, runs_0, fetches_0 = gc, runs, fetches
    return b"".join(done)


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
