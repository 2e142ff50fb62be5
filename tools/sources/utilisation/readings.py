"""What is collected of one tool's output: values by counter and place, and what the output says of itself."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from tools.run.recorded.counters import NONE, SampleClock

MOST_SAMPLES = 1 << 21  # values of one file: eight devices with eight counters for nine hours, once a second
LONGEST_PART, MOST_NOTES = 80, 8
LARGEST = 1e30
NUMBER = re.compile(r"\s*([-+]?\d{1,20}(?:[.,]\d{1,9})?)\s*(°?[A-Za-z%/]{0,8})\s*\Z")
BYTES = {"B": 1, "KIB": 1 << 10, "KB": 1 << 10, "MIB": 1 << 20, "MB": 1 << 20, "GIB": 1 << 30, "GB": 1 << 30}
SCALES = {**BYTES, "MB/S": 1 << 20, "KB/S": 1 << 10, "GB/S": 1 << 30, "MW": 1e-3, "GHZ": 1e3, "HZ": 1e-6}
WEEKDAY = re.compile(
    r"\s*(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3}) +(\d{1,2}) (\d\d:\d\d:\d\d)(?: (UTC|GMT|[A-Z]{3,5}))? (\d{4})\s*\Z"
)
MOMENT = re.compile(r"\s*\d{4}[-/]?\d\d[-/]?\d\d[ T]\d\d:\d\d:\d\d")
EPOCH = re.compile(r"\s*(1\d{9})(?:\.(\d{1,9}))?\s*\Z")


@dataclass(frozen=True)
class Moment:
    """A time that a file states: ns, as if of UTC where it does not say of which zone it is."""

    unix_ns: int
    clock: SampleClock


UNKNOWN = Moment(0, "none")


def moment(text: str) -> Moment | None:
    """The time that a text is: ISO 8601 or with slashes, seconds since 1970, or as ``date`` and nvidia-smi print it."""
    if match := EPOCH.match(text):
        return Moment(int(match[1]) * 10**9 + int((match[2] or "0").ljust(9, "0")), "unix")
    try:
        if match := WEEKDAY.match(text):
            parsed = datetime.strptime(f"{match[1]} {match[2]} {match[5]} {match[3]}", "%b %d %Y %H:%M:%S")
            return _moment(parsed, match[4] in ("UTC", "GMT"))
        if MOMENT.match(text):
            parsed = datetime.fromisoformat(text.strip().replace("/", "-"))
            return _moment(parsed, parsed.tzinfo is not None)
    except ValueError:
        return None
    return None


def _moment(parsed: datetime, zoned: bool) -> Moment:
    since = (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    whole_us = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    return Moment(whole_us * 1000, "unix" if zoned else "local")


def number(text: str) -> tuple[float, str] | None:
    """A value in the unit of the records and the unit as written; None where there is none, such as ``[N/A]``.

    A comma is a decimal comma: no tool that is read writes thousands with commas.
    """
    match = NUMBER.match(text)
    if match is None:
        return None
    unit = match[2]
    return float(match[1].replace(",", ".")) * SCALES.get(unit.upper(), 1.0), unit


@dataclass
class Names:
    """A column of few different texts."""

    places: array[int] = field(default_factory=lambda: array("l"))
    known: dict[str, int] = field(default_factory=dict)

    def append(self, name: str) -> None:
        """One more row."""
        self.places.append(self.known.setdefault(name, len(self.known)))

    def __iter__(self) -> Iterator[str]:
        names = list(self.known)
        return (names[place] for place in self.places)


@dataclass
class Readings:
    """The values of one tool in one file, in the order of its lines."""

    tool: str
    clock: SampleClock = "none"
    driver: str = ""
    host: str = ""
    cores: int = 0  # processors of the machine; 0 where they are not stated
    interval_s: float | None = None
    devices: dict[int, str] = field(default_factory=dict)
    buses: dict[int, int] = field(default_factory=dict)  # PCI addresses as numbers
    numbered: bool = True  # the numbers of devices are those that the file states
    since_start: bool = False  # the only reading may be a mean since the machine was started
    remark: str = ""  # what could not be used, one sentence
    notes: list[str] = field(default_factory=list)  # what was left out, or taken for something
    counters: Names = field(default_factory=Names)
    parts: Names = field(default_factory=Names)
    values: array[float] = field(default_factory=lambda: array("d"))
    times: array[float] = field(default_factory=lambda: array("d"))
    ticks: array[int] = field(default_factory=lambda: array("q"))
    places: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.values)

    def note(self, text: str) -> None:
        """Take a note, once."""
        if text not in self.notes and len(self.notes) < MOST_NOTES:
            self.notes.append(text)

    @property
    def full(self) -> bool:
        """Whether no more is taken."""
        return len(self.values) >= MOST_SAMPLES

    def add(
        self,
        counter: str,
        value: float | None,
        line: int,
        *,
        tick: int = 0,
        at: Moment = UNKNOWN,
        device: int = NONE,
        part: str = "",
    ) -> None:
        """Take one value; nothing where there is none or it is no finite number."""
        if value is None or not abs(value) < LARGEST or self.full:
            return
        self.counters.append(counter)
        self.parts.append(part[:LONGEST_PART])
        self.values.append(value)
        self.times.append(math.nan if at.clock == "none" else float(at.unix_ns))
        self.ticks.append(tick)
        self.places.append(device)
        self.lines.append(line)
        if at.clock != "none" and self.clock != "local":  # one time without a zone leaves the zone of all open
            self.clock = at.clock


class Grammar(Protocol):
    """How one tool writes: ``begins`` says whether a line starts its output, ``takes`` whether a line belongs to it."""

    readings: Readings

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """Whether output of this tool starts here; ``at`` is the last time that stood on a line of its own."""

    def takes(self, line: int, text: str) -> bool:
        """Whether the line was understood as a part of the output."""
