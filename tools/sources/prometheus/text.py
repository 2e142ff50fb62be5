"""The text of an exporter, as ``curl HOST:9400/metrics`` prints it: one reading, or several one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.prometheus.names import Place, place_of, values_of
from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings

LINE = re.compile(r"((?:DCGM_FI|node)_\w{2,80})(?:\{([^}]{0,2000})\})?\s{1,8}(\S{1,30})(?:\s{1,8}(\d{13}))?\s{0,8}\Z")
LABEL = re.compile(r'(\w{1,60})="([^"]{0,200})"')


@dataclass
class ExporterText:
    """The values of one host; those of another in the same text are passed over."""

    readings: Readings = field(default_factory=lambda: Readings("exporter"))
    tick: int = -1
    seen: set[tuple[str, Place]] = field(default_factory=set)
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """A value that is read; one that was seen before begins the next reading."""
        found = LINE.match(text)
        if found is None or place_of(found[1], dict(LABEL.findall(found[2] or ""))) is None:
            return False
        self.tick, self.at, self.seen = self.tick + 1, at, set()
        return self.takes(line, text)

    def takes(self, line: int, text: str) -> bool:
        """A value or a comment; False of one that was seen in this reading."""
        found = LINE.match(text)
        if self.tick < 0 or found is None:
            return self.tick >= 0 and text.startswith(("# HELP ", "# TYPE "))
        place = place_of(found[1], dict(LABEL.findall(found[2] or "")))
        if place is None:
            return True
        if (found[1], place) in self.seen:
            return False
        self.seen.add((found[1], place))
        if not len(self.readings):
            self.readings.host = place.host
        if place.host == self.readings.host:
            self._add(line, found, place)
        return True

    def _add(self, line: int, found: re.Match[str], place: Place) -> None:
        at = Moment(int(found[4]) * 10**6, "unix") if found[4] else self.at
        if place.model and len(self.readings.devices) < 1024:
            self.readings.devices.setdefault(place.device, place.model)
        try:
            value = float(found[3])
        except ValueError:
            return
        for counter, each in values_of(found[1], value):
            self.readings.add(counter, each, line, tick=self.tick, at=at, device=place.device, part=place.part)
