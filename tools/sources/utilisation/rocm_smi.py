"""The tables of ``rocm-smi``: the concise one, whose values carry their units, and ``GPU[0] : name (unit): value``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings, number

CONCISE = {"Temp", "SCLK", "MCLK", "Perf"}  # columns of every version
ROW = re.compile(r" *(\d{1,4})\s+\S")
TITLE = "ROCm System Management Interface"
NAMED = re.compile(r"GPU\[(\d{1,4})\]\s*: (.{3,60}?): *(.{1,40})\Z")
TEMPERATURE, POWER = re.compile(r"(\d{1,3}(?:\.\d)?)\s?°?[cC]\b"), re.compile(r"(\d{1,4}(?:\.\d{1,3})?)W\b")
CLOCK, SHARE = re.compile(r"(\d{1,5})M[hH]z"), re.compile(r"(\d{1,3})%")
VALUES = {
    "gpu use (%)": "device_busy_pct",
    "gpu memory allocated (vram%)": "device_memory_used_pct",
    "average graphics package power (w)": "device_power_w",
    "current socket graphics package power (w)": "device_power_w",
    "max graphics package power (w)": "device_power_limit_w",
    "temperature (sensor junction) (c)": "device_temperature_c",
    "temperature (sensor memory) (c)": "device_memory_temperature_c",
    "vram total memory (b)": "device_memory_total_bytes",
    "vram total used memory (b)": "device_memory_used_bytes",
}
LEVEL = re.compile(r"(sclk|mclk) clock level: .{0,12}\((\d{1,5})M[hH]z\)")
CLOCKS = {"sclk": "device_clock_mhz", "mclk": "device_memory_clock_mhz"}


@dataclass
class RocmSmi:
    """One output after the other; a device or a value that appears again begins the next reading."""

    readings: Readings = field(default_factory=lambda: Readings("rocm-smi"))
    tick: int = -1
    concise: bool = False
    shares: bool = False  # its last columns are the memory in use and the utilization; older ones have neither
    seen: set[tuple[int, str]] = field(default_factory=set)
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """A title, the head of the concise table, or the first named value."""
        if (TITLE in text and "=" in text) or _is_head(text):
            self.at = at
            self._head(text)
            return True
        if NAMED.match(text):
            self.at = at
            return self.takes(line, text)
        return False

    def takes(self, line: int, text: str) -> bool:
        """A row of the concise table, a named value, or a line between them."""
        if match := NAMED.match(text):
            self._named(line, match)
            return True
        if _is_head(text):
            self._head(text)
            return True
        if self.concise and (match := ROW.match(text)) and "%" in text:
            self._row(line, int(match[1]), text)
            return True
        return text.startswith("=") or not text.strip()

    def _head(self, text: str) -> None:
        if _is_head(text):
            self.concise, self.shares = True, "VRAM%" in text and "GPU%" in text

    def _named(self, line: int, match: re.Match[str]) -> None:
        device = int(match[1])
        if level := LEVEL.match(f"{match[2]}: {match[3]}"):
            self._add(CLOCKS[level[1]], float(level[2]), line, device)
        elif (counter := VALUES.get(match[2].lower())) and (read := number(match[3])):
            self._add(counter, read[0], line, device)

    def _row(self, line: int, device: int, text: str) -> None:
        """The first power is drawn, the last is the limit; the last percentage is use, the one before it memory."""
        if heat := TEMPERATURE.search(text):
            self._add("device_temperature_c", float(heat[1]), line, device)
        powers, clocks, shares = (each.findall(text) for each in (POWER, CLOCK, SHARE))
        if powers:
            self._add("device_power_w", float(powers[0]), line, device)
        if len(powers) > 1:
            self._add("device_power_limit_w", float(powers[-1]), line, device)
        for counter, clock in zip(("device_clock_mhz", "device_memory_clock_mhz"), clocks, strict=False):
            self._add(counter, float(clock), line, device)
        if len(shares) > 1 and self.shares:
            self._add("device_memory_used_pct", float(shares[-2]), line, device)
            self._add("device_busy_pct", float(shares[-1]), line, device)

    def _add(self, counter: str, value: float, line: int, device: int) -> None:
        if (device, counter) in self.seen or self.tick < 0:
            self.tick += 1
            self.seen = set()
        self.seen.add((device, counter))
        self.readings.add(counter, value, line, tick=self.tick, at=self.at, device=device)


def _is_head(text: str) -> bool:
    """Whether the line names the columns of the concise table."""
    words = text.split(maxsplit=32)
    return words[:1] in (["GPU"], ["Device"]) and set(words) >= CONCISE
