"""CSV of a tracker's system metrics, as W&B's API and its panels export them: a column for each counter of a device."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings
from tools.sources.wandb_file.counter_names import DEVICE_COUNTERS

# system.gpu.0.powerWatts, "run-name - system/gpu.0.gpu"
COLUMN = re.compile(r"(?:.{0,200} - )?system[./]gpu\.(\d{1,4})\.(\w{1,40})\Z")
TIMES = ("_timestamp", "timestamp", "_wandb.timestamp")
MOST_DEVICES = 1024
NS_PER_S, LARGEST_S, EARLIEST_S = 10**9, 4e9, 1e9


@dataclass
class TrackerCsv:
    """One table: each row is one reading of all devices; times are seconds since 1970."""

    readings: Readings = field(default_factory=lambda: Readings("W&B"))
    columns: tuple[tuple[int, str] | None, ...] = ()
    time: int | None = None
    tick: int = -1

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """A header with a column of a device."""
        if "gpu." not in text:
            return False
        names = _cells(text)
        columns = tuple(_counter(name) for name in names)
        if not any(columns):
            return False
        self.columns = columns
        self.time = next((names.index(each) for each in TIMES if each in names), None)
        return True

    def takes(self, line: int, text: str) -> bool:
        """A row of as many cells."""
        if not self.columns:
            return False
        cells = _cells(text)
        if len(cells) != len(self.columns):
            return False
        values = [(each, _number(cell)) for each, cell in zip(self.columns, cells, strict=True) if each is not None]
        if all(value is None for _, value in values):
            return any(_counter(cell) for cell in cells) or not "".join(cells)
        self.tick += 1
        at = self._moment(cells)
        for (device, counter), value in values:
            self.readings.add(counter, value, line, tick=self.tick, at=at, device=device)
        return True

    def _moment(self, cells: list[str]) -> Moment:
        seconds = None if self.time is None else _number(cells[self.time])
        if seconds is None or not EARLIEST_S <= seconds < LARGEST_S:
            return UNKNOWN
        return Moment(round(seconds * NS_PER_S), "unix")


def _cells(text: str) -> list[str]:
    """The cells of a line; none where its quotes do not close."""
    try:
        return [cell.strip() for cell in next(csv.reader([text]), [])]
    except csv.Error:
        return []


def _counter(name: str) -> tuple[int, str] | None:
    """The device and the counter of a column; None of others, such as the least and the most of a panel."""
    match = COLUMN.match(name)
    if match is None or int(match[1]) >= MOST_DEVICES or match[2] not in DEVICE_COUNTERS:
        return None
    return int(match[1]), DEVICE_COUNTERS[match[2]]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
