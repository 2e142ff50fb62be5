"""The ring as another process sees it: the node agent reads its records and puts requests into it."""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hermes_agent.monitor.format import (
    ANSWER,
    ANSWER_AT,
    BEGIN_AT,
    HEADER_BYTES,
    PREAMBLE,
    RECORDS_AT,
    REQUEST,
    REQUEST_AT,
    RING_MAGIC,
    SCHEMA,
    SEQUENCE,
    STATE,
    STATE_AT,
    StepRecord,
)
from hermes_agent.monitor.raw import RAW, RawStep, records
from hermes_agent.monitor.ring import CaptureRequest

LARGEST_CAPACITY = 1 << 20


class RingError(ValueError):
    """The file is no ring that can be read."""


class RingReader:
    """Reads another process's ring, and puts requests into it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            self.map = mmap.mmap(handle, 0)
        except ValueError as error:
            raise RingError(f"{path}: is empty") from error
        finally:
            os.close(handle)
        self.description = self._description()
        self.capacity = int(self.description["capacity"])
        self._slots = self.capacity + 1
        self._next = 0

    def _description(self) -> dict[str, Any]:
        try:
            magic, length = PREAMBLE.unpack_from(self.map, 0)
            if magic != RING_MAGIC or length > HEADER_BYTES - PREAMBLE.size:
                raise RingError(f"{self.path}: is no ring of this monitor")
            about: dict[str, Any] = json.loads(self.map[PREAMBLE.size : PREAMBLE.size + length])
            capacity, rank, pid = about["capacity"], about["rank"], about["pid"]
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise RingError(f"{self.path}: its description cannot be read ({error})") from error
        known = about.get("schema") == SCHEMA and all(isinstance(each, int) for each in (capacity, rank, pid))
        if not known or not 0 < capacity <= LARGEST_CAPACITY or len(self.map) < RECORDS_AT + (capacity + 1) * RAW.size:
            raise RingError(f"{self.path}: its description does not fit the file")
        return about

    @property
    def rank(self) -> int:
        """The rank that writes it."""
        return int(self.description["rank"])

    def state(self) -> tuple[int, int, bool]:
        """Records written, last heartbeat (unix ns), whether it was closed in order."""
        written, heartbeat_ns, closed, _ = STATE.unpack_from(self.map, STATE_AT)
        return written, heartbeat_ns, bool(closed)

    def new(self) -> Iterator[StepRecord]:
        """The records since the last call that are still there, oldest first."""
        written, _, _, unix_at_zero_ns = STATE.unpack_from(self.map, STATE_AT)
        first = max(self._next, written - self.capacity, 0)
        rows = [self._row(number) for number in range(first - 1, written)] if first < written else []
        self._next = written
        # What the writer may have begun to overwrite while it was copied is left out.
        safe = self.state()[0] - self._slots
        return records((row for row in rows if row.sequence > safe or row.sequence < 0), unix_at_zero_ns)

    def _row(self, number: int) -> RawStep:
        at = BEGIN_AT if number < 0 else RECORDS_AT + number % self._slots * RAW.size
        return RawStep(*RAW.unpack_from(self.map, at))

    def ask(self, request: CaptureRequest) -> None:
        """Puts a request where the rank looks before its next step."""
        fields = REQUEST.pack(request.id, request.steps, request.first_step, 0)[:-4]
        packed = REQUEST.pack(request.id, request.steps, request.first_step, zlib.crc32(fields))
        self.map[REQUEST_AT + SEQUENCE.size : REQUEST_AT + REQUEST.size] = packed[SEQUENCE.size :]
        self.map[REQUEST_AT : REQUEST_AT + SEQUENCE.size] = packed[: SEQUENCE.size]  # the id last: it is what is seen

    def answer(self) -> tuple[int, int, int, str]:
        """Id of the request it speaks of, an ``Answer``, the step, the reason."""
        request, answer, step, reason = ANSWER.unpack_from(self.map, ANSWER_AT)
        return request, answer, step, reason.rstrip(b"\0").decode(errors="replace")

    def close(self) -> None:
        """Unmaps the ring."""
        self.map.close()
