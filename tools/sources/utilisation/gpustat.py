"""Lines of ``gpustat``: one for each device, with its temperature, utilization and memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings

# [0] NVIDIA A100-SXM4-80GB | 55'C,  97 %, 312 / 400 W | 70123 / 81920 MB | alice(70000M)
ROW = re.compile(
    r"\[(?P<device>\d{1,3})\] (?P<model>\S.{0,60}?)\s*\|\s*(?P<celsius>\d{1,3})\s?(?:'C|°C|C),(?:\s*\d{1,3} %,)??"
    r"\s*(?P<busy>\d{1,3}) %(?:,\s*(?P<power>\d{1,5}) /\s*(?P<limit>\d{1,5}) W)?\s*"
    r"\|\s*(?P<used>\d{1,8}) /\s*(?P<total>\d{1,8}) MB\b"
)
MIB = float(1 << 20)
COUNTERS = {
    **{"busy": ("device_busy_pct", 1.0), "celsius": ("device_temperature_c", 1.0)},
    **{"power": ("device_power_w", 1.0), "limit": ("device_power_limit_w", 1.0)},
    **{"used": ("device_memory_used_bytes", MIB), "total": ("device_memory_total_bytes", MIB)},
}


@dataclass
class GpuStat:
    """One listing after the other; a device that appears again begins the next reading."""

    readings: Readings = field(default_factory=lambda: Readings("gpustat"))
    tick: int = -1
    seen: set[int] = field(default_factory=set)
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """The line of a device."""
        self.at = at
        return self.takes(line, text)

    def takes(self, line: int, text: str) -> bool:
        """The line of a device."""
        match = ROW.match(text)
        if match is None:
            return False
        device = int(match["device"])
        if device in self.seen or self.tick < 0:
            self.tick += 1
            self.seen = set()
        self.seen.add(device)
        self.readings.devices.setdefault(device, match["model"].strip())
        for name, (counter, scale) in COUNTERS.items():
            if match[name] is not None:
                value = float(match[name]) * scale
                self.readings.add(counter, value, line, tick=self.tick, at=self.at, device=device)
        return True
