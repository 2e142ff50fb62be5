"""Anomalies that the monitor's agent notices in a run folder, and the captures that it has made, as they come."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hermes_agent.evidence.printable import printable
from hermes_agent.monitor.format import ANOMALIES, CAPTURES, records_folder
from hermes_agent.monitor.run_files import listing, open_plain
from tools.errors import InputError
from tools.sources.monitor.events import Anomaly

FILES = re.compile(rf"{re.escape(ANOMALIES)}.*\.jsonl\Z", re.DOTALL)
FOLDERS = re.compile(rf"{re.escape(CAPTURES)}[0-9]{{1,9}}\Z")
TRACES = re.compile(r"rank[0-9]{1,7}\.pt\.trace\.json\.gz\Z")
MOST_BYTES = 1 << 20  # of one file at one look
CLAIM_CHARS = 500
SETTLED_S = 10.0  # without another trace: the capture is complete
PER_HOUR = 12  # alerts; the others are counted


@dataclass(frozen=True)
class Alert:
    """What an agent noticed; ``left_out`` others were not reported since the last alert."""

    kind: str
    rank: int
    claim: str
    left_out: int = 0


@dataclass(frozen=True)
class Found:
    """What is new since the last look."""

    alerts: tuple[Alert, ...]
    captures: tuple[Path, ...]


class AlertWatch:
    """Look at one run folder again and again; what was there at the beginning is not reported.

    Raises InputError at the beginning, OSError later, where the folder cannot be listed.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._clock = folder, clock
        try:
            self._read = {path: path.stat().st_size for path in self._files()}
            self._done = set(self._captures())
        except OSError as error:
            raise InputError(f"{folder}: cannot be watched for alerts ({error.strerror})") from error
        self._growing: dict[str, tuple[tuple[str, ...], float]] = {}  # traces of a capture, and since when these
        self._times: deque[float] = deque()
        self._left_out = 0

    def look(self) -> Found:
        """Read what is new."""
        alerts = [alert for path in self._files() for line in self._new_lines(path) if (alert := self._alert(line))]
        return Found(tuple(alerts), tuple(self._settled()))

    def _files(self) -> list[Path]:
        folder = records_folder(self._folder)
        return [folder / name for name in listing(folder, FILES).files]

    def _captures(self) -> tuple[str, ...]:
        return listing(self._folder, FOLDERS).folders

    def _new_lines(self, path: Path) -> list[bytes]:
        """The whole lines after those that were read; a file that became shorter begins again."""
        handle = open_plain(path, os.O_RDONLY)
        try:
            begin = self._read.get(path, 0)
            if os.fstat(handle).st_size < begin:
                begin = 0
            data = os.pread(handle, MOST_BYTES, begin)
        finally:
            os.close(handle)
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == MOST_BYTES:  # no line of an agent is that long
            whole = len(data)
        self._read[path] = begin + whole
        return data[:whole].splitlines()

    def _alert(self, line: bytes) -> Alert | None:
        """The alert of a line; None for what is none, and where there were too many within the hour."""
        try:
            seen = msgspec.json.decode(line, type=Anomaly)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        now = self._clock()
        while self._times and now - self._times[0] >= 3600.0:
            self._times.popleft()
        if len(self._times) >= PER_HOUR:
            self._left_out += 1
            return None
        self._times.append(now)
        left_out, self._left_out = self._left_out, 0
        return Alert(printable(seen.kind, 40), seen.rank, printable(seen.claim, CLAIM_CHARS), left_out)

    def _settled(self) -> list[Path]:
        """Captures with traces that nothing was added to for a while."""
        now, settled = self._clock(), []
        for name in self._captures():
            if name in self._done:
                continue
            traces = listing(self._folder / name, TRACES).files
            known, since = self._growing.get(name, ((), now))
            if traces != known:
                self._growing[name] = traces, now
            elif traces and now - since >= SETTLED_S:
                self._done.add(name)
                self._growing.pop(name, None)
                settled.append(self._folder / name)
        return settled
