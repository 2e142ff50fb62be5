"""Rows of ``dcgmi dmon``: a header of short names after ``#``, and an entity at the start of each row.

Short names: dcgm_fields.cpp; activities are fractions, memory is in MiB, traffic over PCIe in bytes a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings

MIB = float(1 << 20)
COLUMNS = {
    **{"GPUTL": ("device_busy_pct", 1.0), "MCUTL": ("device_memory_busy_pct", 1.0)},
    **{"SMCLK": ("device_clock_mhz", 1.0), "MMCLK": ("device_memory_clock_mhz", 1.0)},
    **{"TMPTR": ("device_temperature_c", 1.0), "MMTMP": ("device_memory_temperature_c", 1.0)},
    **{"POWER": ("device_power_w", 1.0), "FBUSD": ("device_memory_used_bytes", MIB)},
    **{"FBTTL": ("device_memory_total_bytes", MIB), "FBFRE": ("device_memory_free_bytes", MIB)},
    **{"GRACT": ("device_engine_active_pct", 100.0), "SMACT": ("device_sm_active_pct", 100.0)},
    **{"TENSO": ("device_tensor_active_pct", 100.0), "DRAMA": ("device_dram_active_pct", 100.0)},
    **{"PCITX": ("pcie_sent_bytes_per_s", 1.0), "PCIRX": ("pcie_received_bytes_per_s", 1.0)},
}
HEAD = re.compile(r"\s*#\s*Entity\s+(\S.*)")
ROW = re.compile(r"\s*(GPU|GPU-I|GPU-CI)\s+(\d{1,4})\s+(\S.*)")
UNITS = re.compile(r"\s*(?:Id|ID)\b")
LARGE = 2.0**47  # and above: DCGM has no value
NOT_READ = "columns that are not known, and left out: {}"
PARTS = "rows of GPU instances do not name their device: left out; the text of DCGM exporter names both"


@dataclass
class DcgmMonitor:
    """The table of one monitor; a device that appears again begins the next reading."""

    readings: Readings = field(default_factory=lambda: Readings("dcgmi dmon"))
    columns: tuple[str, ...] = ()
    tick: int = -1
    seen: set[int] = field(default_factory=set)
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """The header."""
        match = HEAD.match(text)
        columns = tuple(match[1].split()) if match is not None else ()
        if not any(each in COLUMNS for each in columns):
            return False
        self.columns, self.at = columns, at
        unknown = [each for each in columns if each not in COLUMNS]
        if unknown:
            self.readings.note(NOT_READ.format(", ".join(f"`{each[:20]}`" for each in unknown[:8])))
        return True

    def takes(self, line: int, text: str) -> bool:
        """A row, or the line of units."""
        if not self.columns:
            return False
        if not text.strip() or UNITS.match(text):
            return True
        match = ROW.match(text)
        cells = match[3].split() if match is not None else []
        if match is None or len(cells) != len(self.columns):
            return False
        if match[1] != "GPU":
            self.readings.note(PARTS)
            return True
        device = int(match[2])
        if device in self.seen or self.tick < 0:
            self.tick += 1
            self.seen = set()
        self.seen.add(device)
        for column, cell in zip(self.columns, cells, strict=True):
            self._add(column, cell, line, device)
        return True

    def _add(self, column: str, cell: str, line: int, device: int) -> None:
        counter, scale = COLUMNS.get(column, ("", 1.0))
        try:
            value = float(cell)
        except ValueError:
            return
        if counter and 0 <= value < LARGE:
            self.readings.add(counter, value * scale, line, tick=self.tick, at=self.at, device=device)
