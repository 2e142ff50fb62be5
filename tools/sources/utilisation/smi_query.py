"""CSV of ``nvidia-smi --query-gpu`` and of scripts that write the same columns under names of their own.

Fields: ``nvidia-smi --help-query-gpu``. Throttle reasons are called clocks_throttle_reasons up to driver 530, then
clocks_event_reasons.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from statistics import median

from tools.sources.utilisation.readings import LONGEST_PART, UNKNOWN, Moment, Readings, moment, number

UNIT = re.compile(r"[\[(]([^\])]{0,16})[\])]")
REASONS = {
    0x1: "throttle_idle",
    0x2: "throttle_setting",
    0x4: "throttle_power",
    0x8: "throttle_hardware",
    0x10: "throttle_setting",
    0x20: "throttle_thermal",
    0x40: "throttle_thermal",
    0x80: "throttle_power_brake",
    0x100: "throttle_setting",
}  # bits of nvml.h, nvmlClocksEventReasons
REASON_NAMES = {
    **{"gpu_idle": "throttle_idle", "idle": "throttle_idle", "sw_power_cap": "throttle_power"},
    **{"hw_slowdown": "throttle_hardware", "hw_thermal_slowdown": "throttle_thermal"},
    **{"sw_thermal_slowdown": "throttle_thermal", "hw_power_brake_slowdown": "throttle_power_brake"},
    **{"applications_clocks_setting": "throttle_setting", "sync_boost": "throttle_setting"},
    "display_clocks_setting": "throttle_setting",
}
FIELDS = {
    **dict.fromkeys(("utilization_gpu", "gpu_utilization", "gpu_util"), "device_busy_pct"),
    **dict.fromkeys(("utilization_memory", "memory_utilization", "mem_util"), "device_memory_busy_pct"),
    **dict.fromkeys(("memory_used", "mem_used", "gpu_memory_used"), "device_memory_used_bytes"),
    **dict.fromkeys(("memory_total", "mem_total", "gpu_memory_total"), "device_memory_total_bytes"),
    **dict.fromkeys(("temperature_gpu", "temperature", "temp", "gpu_temp", "gpu_temperature"), "device_temperature_c"),
    "temperature_memory": "device_memory_temperature_c",
    **dict.fromkeys(("power_draw", "power_draw_average", "power_draw_instant", "power", "gpu_power"), "device_power_w"),
    **dict.fromkeys(("enforced_power_limit", "power_limit"), "device_power_limit_w"),
    **dict.fromkeys(("clocks_sm", "clocks_current_sm", "sm_clock"), "device_clock_mhz"),
    **dict.fromkeys(("clocks_gr", "clocks_current_graphics", "graphics_clock"), "device_clock_mhz"),
    **dict.fromkeys(("clocks_mem", "clocks_current_memory", "mem_clock"), "device_memory_clock_mhz"),
    **dict.fromkeys(("clocks_max_sm", "clocks_max_gr", "clocks_max_graphics"), "device_clock_max_mhz"),
    **dict.fromkeys(("clocks_max_mem", "clocks_max_memory"), "device_memory_clock_max_mhz"),
    "pcie_link_gen_current": "pcie_generation",
    "pcie_link_gen_gpucurrent": "pcie_generation",
    "pcie_link_width_current": "pcie_width",
    "ecc_errors_uncorrected_volatile_total": "device_ecc_errors",
}
INDEX = ("index", "gpu_index", "gpu_id", "gpu", "gpu_idx", "device")
IDENTITY = ("uuid", "gpu_uuid", "pci_bus_id", "gpu_bus_id", "pci_bus", "gpu_serial", "serial")
BUSES = ("pci_bus_id", "gpu_bus_id", "pci_bus")
BUS_ID = re.compile(r"\s*([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])\s*\Z")
MOST_DEVICES = 1024
TIMES = ("timestamp", "time", "datetime", "date_time")
NAMES = ("name", "gpu_name")
UNIT_ENDINGS = ("_percent", "_pct", "_w", "_watts", "_c", "_celsius", "_mhz", "_mib", "_mb")
MEMORY = 1 << 20  # nvidia-smi states memory in MiB where it leaves the unit out
WITH_UNIT = re.compile(r"\d\s?(?:%|W|MiB|MHz)\s*(?:,|;|\Z)")
HEADLESS = "its columns have no names; write the header line too (--format=csv, without noheader)"
LEAST_HEADLESS = 3  # lines with units: a single one may be anything
PASSED = 0.5  # of the longest pause between lines: shorter ones lie within one reading
NO_REASON = ("[not supported]", "[n/a]", "n/a", "")


@dataclass
class SmiQuery:
    """One table; a line that repeats the header starts no other."""

    readings: Readings = field(default_factory=lambda: Readings("nvidia-smi --query-gpu"))
    columns: Sequence[str] = ()
    separator: str = ","
    tick: int = -1
    seen: set[int] = field(default_factory=set)
    known: dict[str, int] = field(default_factory=dict)
    headless: int = 0
    unnamed: list[tuple[int, Moment]] = field(default_factory=list)  # samples so far and time of each unnamed row

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """A header with columns of a device."""
        columns, separator = _header(text)
        if not columns:
            self._look_for_units(text)
            return False
        self.columns, self.separator = columns, separator
        return True

    def takes(self, line: int, text: str) -> bool:
        """A row, or the header once more."""
        if not self.columns:
            return False
        cells = _cells(text, self.separator, len(self.columns))
        if len(cells) != len(self.columns):
            return False
        row = dict(zip(self.columns, cells, strict=True))
        at = next((moment(row[name]) for name in TIMES if name in row), None) or UNKNOWN
        values = [own for name in self.columns for own in _values(name, row[name])]
        if not values:
            return _header(text)[0] == tuple(self.columns)
        device = self._device(row, at)
        for counter, value in values:
            self.readings.add(counter, value, line, tick=self.tick, at=at, device=device)
        return True

    def _device(self, row: dict[str, str], at: Moment) -> int:
        """The device of a row, by its index, else by an identity in order of appearance, else 0; counts readings."""
        index = next((row[name] for name in INDEX if name in row and row[name].strip().isdecimal()), None)
        identity = next((row[name] for name in IDENTITY if name in row), None)
        if index is not None and len(index.strip()) < 5:
            device = int(index)
        elif identity is not None:
            device = self.known.setdefault(identity.strip(), len(self.known))
            self.readings.numbered = False
        else:
            device = 0
            self.readings.numbered = False
            self.unnamed.append((len(self.readings), at))
        if device in self.seen or self.tick < 0:
            self.tick += 1
            self.seen = set()
        self.seen.add(device)
        bus = next((BUS_ID.match(row[name]) for name in BUSES if name in row), None)
        if bus is not None and len(self.readings.buses) < MOST_DEVICES:
            self.readings.buses.setdefault(device, int(bus[1] + bus[2] + bus[3] + bus[4], 16))
        name = next((row[name].strip() for name in NAMES if name in row), "")
        if name and len(self.readings.devices) < MOST_DEVICES:
            self.readings.devices.setdefault(device, name[:LONGEST_PART])
        if "driver_version" in row:
            self.readings.driver = row["driver_version"].strip()[:LONGEST_PART]
        return device

    def _look_for_units(self, text: str) -> None:
        self.headless += not len(self.readings) and len(WITH_UNIT.findall(text)) > 1
        if self.headless >= LEAST_HEADLESS:
            self.readings.remark = HEADLESS

    def close(self) -> None:
        """Number the devices of rows that name none, where several are written in each reading."""
        count = _in_one_reading([at.unix_ns for _, at in self.unnamed])
        if count < 2:
            return
        starts = [start for start, _ in self.unnamed] + [len(self.readings)]
        for row, (start, end) in enumerate(pairwise(starts)):
            for place in range(start, end):
                self.readings.places[place] = row % count
                self.readings.ticks[place] = row // count


def _in_one_reading(times_ns: Sequence[int]) -> int:
    """Rows that are written at once, by the pauses between them; 1 where that is not the same number throughout."""
    pauses = [later - earlier for earlier, later in pairwise(times_ns)]
    if len(pauses) < 3 or max(pauses) <= 0:
        return 1
    long = median(sorted(pauses)[-max(len(pauses) // 16, 1) :])
    starts = [0, *(at + 1 for at, pause in enumerate(pauses) if pause > PASSED * long)]
    sizes = {end - start for start, end in pairwise(starts)}
    return sizes.pop() if len(sizes) == 1 else 1


def _header(text: str) -> tuple[tuple[str, ...], str]:
    """The columns of a header that names counters of a device, and what separates them; none where it is no such."""
    if not any(word in text.lower() for word in ("gpu", "power", "clocks", "memory", "temp")):
        return (), ","
    separator = max((";", "\t", ","), key=text.count)
    columns = tuple(_name(cell) for cell in text.split(separator))
    if any(cell.strip().replace(".", "").isdecimal() for cell in text.split(separator)):
        return (), ","
    counted = sum(bool(_counters_of(name)) for name in columns)
    placed = any(name in (*INDEX, *IDENTITY, *TIMES) for name in columns)
    return (columns, separator) if counted and (counted > 1 or placed) else ((), ",")


def _name(cell: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", UNIT.sub("", cell).strip().strip("\"'").lower()).strip("_")
    ending = next((each for each in UNIT_ENDINGS if plain.endswith(each)), "")
    plain = plain.removesuffix(ending)
    return plain


def _cells(text: str, separator: str, count: int) -> list[str]:
    """The cells of a row; with commas for decimals as well, only those followed by a space separate."""
    cells = [cell.strip().strip("\"'") for cell in text.split(separator)]
    if len(cells) > count and separator == ",":
        cells = [cell.strip() for cell in text.split(", ")]
    return cells


def _counters_of(name: str) -> tuple[str, ...]:
    for prefix in ("clocks_throttle_reasons_", "clocks_event_reasons_"):
        if name.startswith(prefix):
            reason = name.removeprefix(prefix)
            return tuple(set(REASONS.values())) if reason == "active" else _known(REASON_NAMES.get(reason))
    return ("device_performance_state",) if name == "pstate" else _known(FIELDS.get(name))


def _known(counter: str | None) -> tuple[str, ...]:
    return () if counter is None else (counter,)


@lru_cache(maxsize=1 << 14)
def _values(name: str, cell: str) -> list[tuple[str, float]]:
    """The counters that a cell holds: nearly always one, of a mask of reasons all of them."""
    if name == "pstate":
        state = cell.strip().removeprefix("P")
        return [("device_performance_state", float(state))] if state.isdecimal() and len(state) < 3 else []
    counters = _counters_of(name)
    if not counters:
        return []
    if name.startswith(("clocks_throttle_reasons_", "clocks_event_reasons_")):
        return _reasons(name, cell, counters)
    read = number(cell)
    if read is None:
        return []
    value, unit = read
    bare_memory = not unit and counters[0].endswith("_bytes")
    return [(counters[0], value * MEMORY if bare_memory else value)]


def _reasons(name: str, cell: str, counters: tuple[str, ...]) -> list[tuple[str, float]]:
    text = cell.strip().lower()
    if not name.endswith("_active"):
        return [] if text in NO_REASON else [(counters[0], float(text in ("active", "1")))]
    try:
        mask = int(text, 16)
    except ValueError:
        return []
    active = {reason for bit, reason in REASONS.items() if mask & bit}
    return [(reason, float(reason in active)) for reason in counters]
