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
    **dict.fromkeys(
        ("utilization_memory", "memory_utilization", "mem_util", "utilization_mem"), "device_memory_busy_pct"
    ),
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
    "pcie_link_gen_max": "pcie_generation_max",
    "pcie_link_width_max": "pcie_width_max",
    "ecc_errors_uncorrected_volatile_total": "device_ecc_errors",
}
INDEX = ("index", "gpu_index", "gpu_id", "gpu", "gpu_idx", "device")
IDENTITY = ("uuid", "gpu_uuid", "pci_bus_id", "gpu_bus_id", "pci_bus", "gpu_serial", "serial")
BUSES = ("pci_bus_id", "gpu_bus_id", "pci_bus")
BUS_ID = re.compile(r"\s*([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])\s*\Z")
MOST_DEVICES = 1024
TIMES = ("timestamp", "time", "datetime", "date_time")
NAMES = ("name", "gpu_name")
OTHERS = ("driver_version", "count", "vbios_version", "compute_mode", "persistence_mode", "display_active")
UNIT_ENDINGS = ("_percent", "_pct", "_w", "_watts", "_c", "_celsius", "_mhz", "_mib", "_mb")
MEMORY = 1 << 20  # nvidia-smi states memory in MiB where it leaves the unit out
WITH_UNIT = re.compile(r"\d\s?(?:%|W|MiB|MHz)\s*(?:,|;|\Z)")
HEADLESS = "its columns have no names; write the header line too (--format=csv, without noheader)"
LEAST_HEADLESS = 3  # lines with units: a single one may be anything
PASSED = 0.5  # of the longest pause between lines: shorter ones lie within one reading
AT_ONCE = 0.25  # of the pause between two readings: the rows of one lie no further apart
LEAST_READINGS = 3  # of so many devices each; of two alone the rows of each must be of one moment
MOMENT_NS, MOMENT_SHARE = 20_000_000, 0.05
MOST_OPEN = 1 << 16  # rows whose devices are not known yet
ONE_INDEX = "rows of one time stamp have the same `{}`: it numbers no devices, and `{}` is used"
NO_NUMBER = (
    "rows of one time stamp have the same `{}`: it numbers no devices; they are counted in the order of the rows"
)
UNKNOWN_COLUMNS = "columns that are not known, and left out: {}"
MOST_NAMED = 8
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
    named_by: tuple[str, ...] = ()  # the columns that may name the device of a row, the first one is used
    open_rows: list[tuple[int, Moment, tuple[str, ...]]] | None = None  # until two rows of one moment differ in it

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """A header with columns of a device."""
        columns, separator = _header(text)
        if not columns:
            self._look_for_units(text)
            return False
        self.columns, self.separator = columns, separator
        self.named_by = tuple(name for name in (*INDEX, *IDENTITY) if name in columns)
        self.open_rows = []
        self._note_unknown(text)
        return True

    def _note_unknown(self, text: str) -> None:
        """The columns of the header that no counter, device or time is read from."""
        known = {*INDEX, *IDENTITY, *TIMES, *NAMES, *OTHERS}
        cells = [cell.strip().strip("\"'") for cell in text.split(self.separator)]
        unknown = [cell for cell in cells if cell and _name(cell) not in known and not _counters_of(_name(cell))]
        if unknown:
            shown = ", ".join(f"`{each[:LONGEST_PART]}`" for each in unknown[:MOST_NAMED])
            more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
            self.readings.note(UNKNOWN_COLUMNS.format(shown + more))

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
        cells = tuple(row[name].strip() for name in self.named_by)
        if self.open_rows is not None and cells:
            self._look_at(cells, at)
            cells = cells[len(cells) - len(self.named_by) :]
        device = self._number(cells)
        if device is None:
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

    def _number(self, cells: tuple[str, ...]) -> int | None:
        """The device by the first of the cells that name one; None where none does."""
        for name, cell in zip(self.named_by, cells, strict=True):
            if name in INDEX and cell.isdecimal() and len(cell) < 5:
                return int(cell)
            if name in IDENTITY:
                self.readings.numbered = False
                return self.known.setdefault(cell, len(self.known))
        return None

    def _look_at(self, cells: tuple[str, ...], at: Moment) -> None:
        """Leave out an index that does not change from row to row of one moment, where another column does."""
        rows = self.open_rows
        assert rows is not None
        _, before, last = rows[-1] if rows else (0, UNKNOWN, cells)
        rows.append((len(self.readings), at, cells))
        if at.clock == "none" or at != before or len(rows) > MOST_OPEN:
            self.open_rows = rows if len(rows) <= MOST_OPEN else None
            return
        if cells[0] != last[0]:
            self.open_rows = None
            return
        place = next((place for place, pair in enumerate(zip(cells, last, strict=True)) if pair[0] != pair[1]), None)
        if place is None:
            return
        self.readings.note(ONE_INDEX.format(self.named_by[0], self.named_by[place]))
        self.named_by = self.named_by[place:]
        self.open_rows, self.seen, self.tick = None, set(), -1
        ends = [*(start for start, _, _ in rows[1:-1]), len(self.readings)]
        for (start, _, earlier), end in zip(rows[:-1], ends, strict=True):
            self._renumber(start, end, self._number(earlier[place:]) or 0)

    def _renumber(self, start: int, end: int, device: int) -> None:
        if device in self.seen or self.tick < 0:
            self.tick += 1
            self.seen = set()
        self.seen.add(device)
        for row in range(start, end):
            self.readings.places[row] = device
            self.readings.ticks[row] = self.tick

    def _look_for_units(self, text: str) -> None:
        self.headless += not len(self.readings) and len(WITH_UNIT.findall(text)) > 1
        if self.headless >= LEAST_HEADLESS:
            self.readings.remark = HEADLESS

    def close(self) -> None:
        """Number the devices of rows that name none, where several are written in each reading."""
        rows = self.unnamed
        if self.open_rows and not rows and self.named_by[0] in INDEX:
            if len({cells[0] for _, _, cells in self.open_rows}) > 1:
                return
            rows = [(start, at) for start, at, _ in self.open_rows]
        count = _in_one_reading([at.unix_ns for _, at in rows if at.clock != "none"])
        if count < 2:
            return
        if rows is not self.unnamed:
            if count == len(rows) or not _share_stamps(rows):
                return
            self.readings.note(NO_NUMBER.format(self.named_by[0]))
            self.readings.numbered = False
        starts = [start for start, _ in rows] + [len(self.readings)]
        for row, (start, end) in enumerate(pairwise(starts)):
            for place in range(start, end):
                self.readings.places[place] = row % count
                self.readings.ticks[place] = row // count


def _share_stamps(rows: Sequence[tuple[int, Moment]]) -> bool:
    """Whether rows next to each other have the very same time."""
    return any(later == earlier for (_, earlier), (_, later) in pairwise(rows))


def _in_one_reading(times_ns: Sequence[int]) -> int:
    """Rows that are written at once, by the pauses between them; 1 where that is not the same number throughout, or
    where the rows of one reading lie hardly closer to each other than the readings: a device may pause as well."""
    pauses = [later - earlier for earlier, later in pairwise(times_ns)]
    if not pauses:
        return 1
    if max(pauses) <= 0:  # all of one moment
        return len(times_ns) if min(pauses) == 0 else 1
    long = median(sorted(pauses)[-max(len(pauses) // 16, 1) :])
    between = [pause for pause in pauses if pause > PASSED * long]
    within = max((pause for pause in pauses if pause <= PASSED * long), default=0)
    starts = [0, *(at + 1 for at, pause in enumerate(pauses) if pause > PASSED * long)]
    sizes = {end - start for start, end in pairwise([*starts, len(times_ns)])}
    if len(sizes) > 1 or within > AT_ONCE * min(between):
        return 1
    if len(starts) < LEAST_READINGS and within > min(MOMENT_NS, MOMENT_SHARE * min(between)):
        return 1
    return sizes.pop()


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
