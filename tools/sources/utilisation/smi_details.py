"""The listing of ``nvidia-smi -q``: sections by indentation, ``name : value`` in them, one block for each device."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings, moment, number
from tools.sources.utilisation.smi_query import REASON_NAMES

HEAD = "==NVSMI LOG=="
DEVICE = re.compile(r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:")
LINE = re.compile(r"( *)(\S.{0,60}?) *: (.{0,200})\Z")
SECTION = re.compile(r"( *)(\S[^:]{0,60})\Z")
UNCORRECTED = re.compile(r"(?:sram|dram) uncorrectable\b.{0,20}\Z")  # rows in which memory errors are counted
REASONS_ALONE = re.compile(r" *Clocks (?:Throttle|Event) Reasons *\Z")
REASON_SECTIONS = ("clocks throttle reasons", "clocks event reasons")
COUNTERS = {
    ("utilization", "gpu"): "device_busy_pct",
    ("utilization", "memory"): "device_memory_busy_pct",
    ("fb memory usage", "total"): "device_memory_total_bytes",
    ("fb memory usage", "used"): "device_memory_used_bytes",
    ("temperature", "gpu current temp"): "device_temperature_c",
    ("temperature", "memory current temp"): "device_memory_temperature_c",
    ("clocks", "sm"): "device_clock_mhz",
    ("clocks", "memory"): "device_memory_clock_mhz",
    ("pcie generation", "current"): "pcie_generation",
    ("pcie generation", "max"): "pcie_generation_max",
    ("link width", "current"): "pcie_width",
    ("link width", "max"): "pcie_width_max",
    ("max clocks", "sm"): "device_clock_max_mhz",
    ("max clocks", "memory"): "device_memory_clock_max_mhz",
    **{
        (section, name): counter
        for section in ("power readings", "gpu power readings")
        for name, counter in {
            **dict.fromkeys(("power draw", "average power draw", "instantaneous power draw"), "device_power_w"),
            **dict.fromkeys(("enforced power limit", "current power limit"), "device_power_limit_w"),
        }.items()
    },
}


@dataclass
class SmiDetails:
    """One listing after the other; each is one reading."""

    readings: Readings = field(default_factory=lambda: Readings("nvidia-smi -q"))
    tick: int = -1
    device: int = -1
    section: str = ""
    at: Moment = UNKNOWN
    taken: set[str] = field(default_factory=set)

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """The head of the listing, or of the reasons for lowering clocks where that section stands alone."""
        if HEAD in text:
            self.tick, self.device, self.section, self.at = self.tick + 1, -1, "", at
            return True
        if self.tick < 0 and REASONS_ALONE.match(text):  # this section of one device, cut out of the listing
            self.tick, self.device, self.at = 0, 0, at
            return self.takes(line, text)
        return False

    def takes(self, line: int, text: str) -> bool:
        """A device, a section or a value."""
        if self.tick < 0 or HEAD in text:
            return False
        if not text.strip():
            return True
        if DEVICE.match(text):
            self.device, self.section, self.taken = self.device + 1, "", set()
            return True
        if match := LINE.match(text):
            self.value(line, match[2].lower(), match[3].strip())
            return True
        if match := SECTION.match(text):
            self.section = match[2].strip().lower()
            return bool(match[1]) or self.section in REASON_SECTIONS
        return False

    def value(self, line: int, name: str, value: str) -> None:
        """One value of the present section, or of the listing before its first device."""
        if self.device < 0:
            self._about(name, value)
            return
        if name == "product name":
            self.readings.devices.setdefault(self.device, value)
        elif name == "performance state" and value[1:].isdecimal() and len(value) < 4:
            self._add("device_performance_state", float(value[1:]), line)
        elif self.section in REASON_SECTIONS:
            counter = REASON_NAMES.get(name.replace(" ", "_"))
            if counter is not None and value in ("Active", "Not Active"):
                self._add(counter, float(value == "Active"), line)
        elif self.section == "volatile" and (uncorrected := UNCORRECTED.match(name)) and value.isdecimal():
            self._add("device_ecc_errors", float(value), line, uncorrected[0])
        elif self.section == "link width" and value.endswith("x"):
            self.value(line, name, value.removesuffix("x"))
        elif (counter := COUNTERS.get((self.section, name))) and (read := number(value)) and counter not in self.taken:
            self.taken.add(counter)
            self._add(counter, read[0], line)

    def _about(self, name: str, value: str) -> None:
        if name == "timestamp":
            self.at = moment(value) or self.at
        elif name == "driver version":
            self.readings.driver = value

    def _add(self, counter: str, value: float, line: int, part: str = "") -> None:
        self.readings.add(counter, value, line, tick=self.tick, at=self.at, device=self.device, part=part)
