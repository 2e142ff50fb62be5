"""The thread that brings records from the ring into files, and samples what is too expensive for every step."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import Any

from hermes_agent.monitor.format import EVENTS, STEPS, STEPS_MAGIC, Description
from hermes_agent.monitor.ring import RingWriter
from hermes_agent.monitor.run_files import create, make_folder, write_all


@dataclass(frozen=True)
class FlushPlan:
    """Intervals of flushing and sampling, and the largest file."""

    flush_s: float = 0.9
    sample_s: float = 5.0
    largest_file_bytes: int = 512 << 20


class RecordFiles:
    """The step file and the event file of one rank."""

    def __init__(self, folder: Path, description: Description, largest_bytes: int) -> None:
        make_folder(folder)
        self.steps_path = folder / f"{description.stem}{STEPS}"
        self._largest = largest_bytes
        self._steps = create(self.steps_path)
        self._events = create(folder / f"{description.stem}{EVENTS}")
        self._written = {self._steps: 0, self._events: 0}
        self.full = False
        self._put(self._steps, description.pack(STEPS_MAGIC))

    def add_steps(self, records: bytes) -> None:
        """Append packed records."""
        self._put(self._steps, records)

    def add_events(self, events: Iterable[dict[str, Any]]) -> None:
        """Append events, one JSON object per line."""
        lines = [json.dumps(event, separators=(",", ":")) + "\n" for event in events]
        self._put(self._events, "".join(lines).encode())

    def _put(self, handle: int, data: bytes) -> None:
        if self._written[handle] + len(data) > self._largest:
            self.full = True
            return
        self._written[handle] += len(data)
        write_all(handle, data)

    def close(self) -> None:
        """Close both files; the first call only."""
        while self._written:
            os.close(self._written.popitem()[0])


class Flusher:
    """Runs until ``stop``; a failure is reported once through ``failed`` and ends the thread."""

    def __init__(
        self,
        ring: RingWriter,
        files: RecordFiles,
        plan: FlushPlan,
        collect: Callable[[bool], Iterable[dict[str, Any]]],
        failed: Callable[[str, Exception | None], None],
    ) -> None:
        self._ring, self._files, self._plan, self._collect, self._failed = ring, files, plan, collect, failed
        self._flushed, self._sample_in_s, self._reported_full = 0, 0.0, False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hermes-dx-monitor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, limit_s: float) -> bool:
        """Flush a last time and ends; True when everything is in the files."""
        self._ended.set()
        self._thread.join(limit_s)
        return self.ended and self._flushed == self._ring.written and not self._files.full

    @property
    def ended(self) -> bool:
        """Return whether the thread has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._ended.wait(self._plan.flush_s):
                self.flush()
            self.flush()
        except Exception as error:  # the boundary of the thread: training goes on
            self._failed("its records cannot be written any more", error)

    def flush(self) -> None:
        """Write what is new."""
        self._ring.beat(time_ns(), perf_counter_ns())
        self._flushed, records = self._ring.since(self._flushed)
        self._files.add_steps(records)
        self._sample_in_s -= self._plan.flush_s
        due = self._sample_in_s <= 0 or self._ended.is_set()
        if due:
            self._sample_in_s = self._plan.sample_s
        self._files.add_events(self._collect(due))
        if self._files.full and not self._reported_full:
            self._reported_full = True
            self._failed("its files are as large as allowed; what follows is in the ring only", None)
