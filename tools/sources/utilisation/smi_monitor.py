"""Rows of ``nvidia-smi dmon`` and ``pmon``: a header after ``#`` names the columns and is repeated now and then."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings, moment, number

CELLS = re.compile(r"[,\s]+")
DEVICE = {
    **{"pwr": "device_power_w", "gtemp": "device_temperature_c", "temp": "device_temperature_c"},
    **{"mtemp": "device_memory_temperature_c", "sm": "device_busy_pct", "mem": "device_memory_busy_pct"},
    **{"mclk": "device_memory_clock_mhz", "pclk": "device_clock_mhz", "fb": "device_memory_used_bytes"},
    **{"pviol": "throttle_power_pct", "tviol": "throttle_thermal", "dbecc": "device_ecc_errors"},
    **{"rxpci": "pcie_received_bytes_per_s", "txpci": "pcie_sent_bytes_per_s"},
}
PROCESS = {"sm": "device_process_busy_pct", "fb": "device_process_memory_bytes"}
MEGABYTES = ("fb", "rxpci", "txpci")  # MiB, and MB/s of 2^20 bytes
LEAST_KNOWN = 2


@dataclass
class SmiMonitor:
    """The table of one monitor; a device that appears again begins the next reading."""

    readings: Readings = field(default_factory=lambda: Readings("nvidia-smi dmon"))
    columns: tuple[str, ...] = ()
    tick: int = -1
    seen: set[str] = field(default_factory=set)

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """The first header, or another one with other columns."""
        columns = tuple(each.lower() for each in CELLS.split(text.strip().lstrip("#").strip()) if each)
        if "gpu" not in columns[:3] or sum(each in DEVICE for each in columns) < LEAST_KNOWN:
            return False
        self.columns = columns
        if "pid" in columns:
            self.readings.tool = "nvidia-smi pmon"
        return True

    def takes(self, line: int, text: str) -> bool:
        """A row, or a line of the header."""
        if not self.columns:
            return False
        if text.lstrip().startswith("#"):
            if "gpu" in text.lower():
                self.begins(line, text, UNKNOWN)
            return True
        cells = [each for each in CELLS.split(text.strip()) if each]
        if len(cells) < len(self.columns):
            return False
        row = dict(zip(self.columns, cells, strict=False))
        if not row["gpu"].isdecimal() or len(row["gpu"]) > 4:
            return False
        self._take(line, row)
        return True

    def _take(self, line: int, row: dict[str, str]) -> None:
        own = f"{row['gpu']} {row.get('pid', '')}"
        if own in self.seen or self.tick < 0:
            self.tick += 1
            self.seen = set()
        self.seen.add(own)
        at = moment(f"{row.get('date', '')} {row.get('time', '')}") or UNKNOWN
        part = f"{row['pid']} {row.get('command', '')}".strip() if "pid" in row else ""
        for column, counter in (PROCESS if part else DEVICE).items():
            read = number(row.get(column, ""))
            if read is not None and part != "-":
                value = read[0] * (1 << 20 if column in MEGABYTES else 1)
                self.readings.add(counter, value, line, tick=self.tick, at=at, device=int(row["gpu"]), part=part)
