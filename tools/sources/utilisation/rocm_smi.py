"""The tables of ``rocm-smi``: the concise one, whose values carry their units, and ``GPU[0] : name (unit): value``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings, number

CONCISE = {"Temp", "SCLK", "MCLK", "Perf"}  # columns of every version
ROW = re.compile(r" *(\d{1,4})\s+\S")
TITLE = "ROCm System Management Interface"
NAMED = re.compile(r"GPU\[(\d{1,4})\]\s*: (.{3,60}?): *(.{1,40})\Z")
TEMPERATURE, POWER = re.compile(r"(\d{1,3}(?:\.\d)?)\s?°?[cC]\b"), re.compile(r"(\d{1,4}(?:\.\d{1,3})?)W")
CLOCK, SHARE = re.compile(r"(\d{1,5})M[hH]z"), re.compile(r"(\d{1,3}(?:\.\d{1,2})?)%")
CELLS = {
    "SCLK": (CLOCK, "device_clock_mhz"),
    "MCLK": (CLOCK, "device_memory_clock_mhz"),
    "PwrCap": (POWER, "device_power_limit_w"),
    "VRAM%": (SHARE, "device_memory_used_pct"),
    "GPU%": (SHARE, "device_busy_pct"),
}  # columns by name
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
    columns: dict[str, int] = field(default_factory=dict)  # the place from the right, of columns of one word
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
        if not _is_head(text):
            return
        words = text.split()[::-1]
        self.concise = True
        single = "OD" not in words  # "SCLK OD" is one column of two words
        self.columns = {name: place for place, name in enumerate(words, 1) if name in CELLS} if single else {}

    def _named(self, line: int, match: re.Match[str]) -> None:
        device = int(match[1])
        if level := LEVEL.match(f"{match[2]}: {match[3]}"):
            self._add(CLOCKS[level[1]], float(level[2]), line, device)
        elif (counter := VALUES.get(match[2].lower())) and (read := number(match[3])):
            self._add(counter, read[0], line, device)

    def _row(self, line: int, device: int, text: str) -> None:
        """Cells from the right: before the clocks, columns of newer versions hold several words."""
        cells = text.split()
        if heat := TEMPERATURE.search(text):
            self._add("device_temperature_c", float(heat[1]), line, device)
        if self.columns:
            before = cells[: len(cells) - self.columns["SCLK"]]
            own = {name: cells[-place] for name, place in self.columns.items() if place <= len(cells)}
        else:
            before, own = cells, {}
        if drawn := next((each for cell in before if (each := POWER.fullmatch(cell))), None):
            self._add("device_power_w", float(drawn[1]), line, device)
        for name, (pattern, counter) in CELLS.items():
            if (value := pattern.fullmatch(own.get(name, ""))) is not None:
                self._add(counter, float(value[1]), line, device)
        if not own:
            for counter, clock in zip(
                ("device_clock_mhz", "device_memory_clock_mhz"), CLOCK.findall(text), strict=False
            ):
                self._add(counter, float(clock), line, device)

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
