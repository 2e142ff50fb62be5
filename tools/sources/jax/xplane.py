"""Planes, lines and events of XSpace (openxla/xla, xla/tsl/profiler/protobuf/xplane.proto), the form of XProf and JAX.

XSpace: 1 planes, 4 hostnames. XPlane: 2 name, 3 lines, 4 names of events, 5 names of stats, 6 stats. XLine: 2 name,
3 timestamp_ns, 4 events, 11 display name. XEvent: 1 metadata id, 2 offset_ps, 3 duration_ps, 4 stats. XStat: 1 metadata
id, 2 double, 3 uint64, 4 int64, 5 text, 6 bytes, 7 reference to a name of a stat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tools.sources.wire import WireError, fields, number, part

LONGEST_NAME = 4096
MOST_EVENTS = 8_000_000  # of a file; XProf itself shows one million
MOST_NAMES = 1 << 20  # of a plane
LATEST_PS = 2**62


@dataclass
class Room:
    """How many events may still be read of a file."""

    events: int = MOST_EVENTS

    def take(self) -> None:
        """Count one event; WireError beyond the bound."""
        self.events -= 1
        if self.events < 0:
            raise WireError(f"it holds more than {MOST_EVENTS:,} events; profile fewer steps")


@dataclass(frozen=True, eq=False)
class LineEvents:
    """Events of a line as columns: number of the name, picoseconds from the line's timestamp, and their stats."""

    name: NDArray[np.int64]
    start_ns: NDArray[np.int64]  # on the clock of the line's timestamp
    end_ns: NDArray[np.int64]
    stats: list[dict[str, int | str]]  # those asked for, by name

    def whole_numbers(self, stat: str) -> NDArray[np.int64]:
        """A stat of each event, -1 where it has none."""
        found = (each.get(stat) for each in self.stats)
        values = [value if isinstance(value, int) and 0 <= value < LATEST_PS else -1 for value in found]
        return np.array(values, dtype=np.int64)

    def texts(self, stat: str) -> list[str]:
        """A stat of each event, "" where it has none."""
        return [str(each.get(stat, "")) for each in self.stats]


@dataclass(frozen=True, eq=False)
class Line:
    """One thread, stream or lane of a plane."""

    name: str
    number: int
    timestamp_ns: int
    message: memoryview = field(repr=False)


@dataclass(frozen=True, eq=False)
class Plane:
    """One device or host."""

    name: str
    message: memoryview = field(repr=False)

    @cached_property
    def event_names(self) -> Mapping[int, str]:
        """The display name of each event's metadata, else its name."""
        return self._names(4, display=4)

    @cached_property
    def stat_names(self) -> Mapping[int, str]:
        """The name of each stat, and the texts that stats refer to."""
        return self._names(5, display=0)

    @cached_property
    def stats(self) -> dict[str, int | str]:
        """Facts of the plane itself."""
        wanted = dict(self.stat_names)
        return dict(self._stat(part(value), wanted) for key, value in fields(self.message) if key == 6)

    def lines(self) -> Iterator[Line]:
        """The lines, their events unread."""
        for key, value in fields(self.message):
            if key != 3:
                continue
            own: dict[int, int | memoryview] = {}
            for inner, given in fields(part(value)):
                if inner != 4:
                    own[inner] = given
            name = _text(own.get(11, own.get(2, memoryview(b"")))) or _text(own.get(2, memoryview(b"")))
            yield Line(name, number(own.get(1, 0)), number(own.get(3, 0)), part(value))

    def events(self, line: Line, wanted: tuple[str, ...], room: Room) -> LineEvents:
        """The events of a line with some of their stats."""
        asked = {key: name for key, name in self.stat_names.items() if name in wanted}
        rows: list[tuple[int, int, int]] = []
        stats: list[dict[str, int | str]] = []
        base_ps = line.timestamp_ns * 1000
        for key, value in fields(line.message):
            if key != 4:
                continue
            room.take()
            name = offset = duration = 0
            own: dict[str, int | str] = {}
            for inner, given in fields(part(value)):
                if inner == 1:
                    name = number(given)
                elif inner == 2:
                    offset = number(given)
                elif inner == 3:
                    duration = number(given)
                elif inner == 4 and asked:
                    stat, said = self._stat(part(given), asked)
                    if stat:
                        own[stat] = said
            rows.append((name, (base_ps + offset) // 1000, (base_ps + offset + duration) // 1000))
            stats.append(own)
        sound = [row if all(abs(each) < LATEST_PS for each in row) else (0, 0, -1) for row in rows]
        columns = np.array(sound, dtype=np.int64).reshape(-1, 3)
        return LineEvents(columns[:, 0], columns[:, 1], columns[:, 2], stats)

    def _stat(self, message: memoryview, wanted: Mapping[int, str]) -> tuple[str, int | str]:
        """Name and value; "" where it is none of those wanted, or a fraction."""
        name = ""
        for key, value in fields(message):
            if key == 1:
                name = wanted.get(number(value), "")
                if not name:
                    return "", 0
            elif key in (3, 4):
                return name, number(value)
            elif key == 5:
                return name, _text(value)
            elif key == 7:
                return name, self.stat_names.get(number(value), "")
        return "", 0

    def _names(self, entries: int, display: int) -> dict[int, str]:
        """Entries of a map from numbers to metadata: 1 id, 2 name, and a display name where there is one."""
        found: dict[int, str] = {}
        for key, value in fields(self.message):
            if key != entries:
                continue
            if len(found) >= MOST_NAMES:
                raise WireError(f"a plane has more than {MOST_NAMES:,} names")
            entry = dict(fields(part(value)))
            metadata = dict(fields(part(entry.get(2, memoryview(b"")))))
            shown = _text(metadata[display]) if display in metadata else ""
            found[number(entry.get(1, 0))] = shown or _text(metadata.get(2, memoryview(b"")))
        return found


@dataclass(frozen=True, eq=False)
class Space:
    """One file: what was recorded on one host."""

    planes: tuple[Plane, ...]
    host: str


def read_space(data: bytes) -> Space:
    """The planes of a file, unread; raises WireError where it is none."""
    planes: list[Plane] = []
    host = ""
    for key, value in fields(memoryview(data)):
        if key == 1:
            message = part(value)
            name = next((given for inner, given in fields(message) if inner == 2), memoryview(b""))
            planes.append(Plane(_text(name), message))
        elif key == 4:
            host = host or _text(value)
    return Space(tuple(planes), host)


def _text(value: int | memoryview) -> str:
    return bytes(part(value)[:LONGEST_NAME]).decode("utf-8", "replace")
