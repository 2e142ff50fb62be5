"""Tables of sar, mpstat, iostat, pidstat and vmstat: a header names the columns, rows follow, with a time or without.

What these print first without an interval, and iostat and vmstat always, is a mean since the machine was started: it
says nothing of the training and is left out, like the averages at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from statistics import median

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings, moment, number

KIB, PAGE = 1 << 10, 1 << 12
CPU = {"%iowait": "cpu_iowait_pct", "%steal": "cpu_steal_pct", "%idle": "cpu_idle_pct"}
CPU |= {"%system": "cpu_system_pct", "%sys": "cpu_system_pct"}
# Columns by name, with what a unit of them is worth; tables by the column that names the part of a row.
COLUMNS: dict[str, dict[str, tuple[str, float]]] = {
    "CPU": {name: (counter, 1.0) for name, counter in CPU.items()},
    "IFACE": {
        "rxkB/s": ("network_received_bytes_per_s", KIB),
        "txkB/s": ("network_sent_bytes_per_s", KIB),
        "rxerr/s": ("interface_errors_per_s", 1.0),
        "txerr/s": ("interface_errors_per_s", 1.0),
        "rxdrop/s": ("interface_dropped_per_s", 1.0),
        "txdrop/s": ("interface_dropped_per_s", 1.0),
    },
    "DEV": {
        "rkB/s": ("disk_read_bytes_per_s", KIB),
        "wkB/s": ("disk_written_bytes_per_s", KIB),
        "rMB/s": ("disk_read_bytes_per_s", KIB * KIB),
        "wMB/s": ("disk_written_bytes_per_s", KIB * KIB),
        "await": ("disk_wait_ms", 1.0),
        "%util": ("disk_busy_pct", 1.0),
    },
    "PID": {
        "%wait": ("process_wait_pct", 1.0),
        "%CPU": ("process_cpu_pct", 1.0),
        "RSS": ("process_resident_bytes", KIB),
    },
    "": {
        "retrans/s": ("tcp_retransmitted_segments_per_s", 1.0),
        "oseg/s": ("tcp_sent_segments_per_s", 1.0),
        "runq-sz": ("runnable_processes", 1.0),
        "blocked": ("blocked_processes", 1.0),
        "%memused": ("memory_used_pct", 1.0),
        "kbmemused": ("memory_used_bytes", KIB),
        "pswpin/s": ("swapped_bytes_per_s", PAGE),
        "pswpout/s": ("swapped_bytes_per_s", PAGE),
        "cswch/s": ("context_switches_per_s", 1.0),
        "%scpu": ("pressure_cpu_some_pct", 1.0),
        "%sio": ("pressure_io_some_pct", 1.0),
        "%fio": ("pressure_io_full_pct", 1.0),
        "%smem": ("pressure_memory_some_pct", 1.0),
        "%fmem": ("pressure_memory_full_pct", 1.0),
    },
    "vmstat": {
        "r": ("runnable_processes", 1.0),
        "b": ("blocked_processes", 1.0),
        "si": ("swapped_bytes_per_s", KIB),
        "so": ("swapped_bytes_per_s", KIB),
        "cs": ("context_switches_per_s", 1.0),
        "sy": ("cpu_system_pct", 1.0),
        "id": ("cpu_idle_pct", 1.0),
        "wa": ("cpu_iowait_pct", 1.0),
        "st": ("cpu_steal_pct", 1.0),
    },
}
SUMMED = ("interface_errors_per_s", "interface_dropped_per_s", "swapped_bytes_per_s")  # of both directions
WAITS, RATES = ("r_await", "w_await"), ("r/s", "w/s")  # of a read and a write
# Linux 5.14.0-362.8.1.el9_3.x86_64 (alma9)       02/21/24        _x86_64_        (8 CPU)
TITLE = re.compile(r"Linux \S+ \(([^)]{1,64})\)\s+(\S{6,12})\s+\S+\s+\((\d{1,5}) CPU\)")
ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)\Z")
MONTH_FIRST = re.compile(r"(\d\d)/(\d\d)/(\d\d(?:\d\d)?)\Z")
MONTHS, CENTURY = 12, 2000
CLOCK = re.compile(r"\s*(\d\d):(\d\d):(\d\d)(?: ([AP]M))?\s+(.*)")
CJK_CLOCK = re.compile(r"\s*(\d\d)时(\d\d)分(\d\d)秒()\s+(.*)")
AVERAGE = re.compile(r"\s*(?:Average|平均时间|Moyenne|Durchschn\.?|Mittelwert|Media)\s*:")
KEYS = {"CPU": "CPU", "IFACE": "IFACE", "DEV": "DEV", "Device": "DEV", "Device:": "DEV", "PID": "PID"}
VMSTAT = ("r", "b", "swpd")
IOSTAT_CPU = "avg-cpu:"
DAY_S = 86_400
SINCE_BOOT = "the first report of {} is a mean since the machine was started: left out"


@dataclass
class Sysstat:
    """The tables of one file; ``table`` is "" where the rows name no part."""

    readings: Readings = field(default_factory=lambda: Readings("sar"))
    columns: tuple[str, ...] = ()
    table: str = ""
    first: set[str] = field(default_factory=set)  # tables of which the mean since the start has passed
    day: date | None = None
    clock_s: list[int] = field(default_factory=list)  # times of day, of each reading
    days: int = 0
    tick: int = 0
    seen: set[tuple[tuple[str, ...], str]] = field(default_factory=set)
    since_start: bool = False
    first_rows: list[tuple[int, str, float, str]] = field(default_factory=list)  # those of the first tables
    head_s: int | None = None  # time of day in the header: that of the rows only where there was no interval
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """The title of a machine, or the header of a table."""
        if title := TITLE.match(text):
            self.readings.host, self.day, self.readings.cores = title[1], _date(title[2]), int(title[3])
            self.first = set() if self.readings.tool == "iostat" else self.first  # it was started again
            return True
        self.head_s, rest = _after_clock(text)
        columns = tuple(rest.lstrip("# ").removeprefix("Time ").split())
        table = _table(columns)
        if table is None or (not table and self.head_s is None):
            return False
        self.at = at
        self._head(columns, table)
        return True

    def _head(self, columns: tuple[str, ...], table: str) -> None:
        tool = {"vmstat": "vmstat", "PID": "pidstat"}.get(table, self.readings.tool)
        tool = "iostat" if IOSTAT_CPU in columns or columns[0].startswith("Device") else tool
        self.readings.tool = "mpstat" if table == "CPU" and "%guest" in columns and tool == "sar" else tool
        key = f"{table} {columns[0]}"
        self.since_start = tool in ("iostat", "vmstat") and key not in self.first
        self.first.add(key)
        self.columns = tuple(each for each in columns if each != IOSTAT_CPU)
        self.table = table

    def takes(self, line: int, text: str) -> bool:
        """A row, a blank line, or an average."""
        if not text.strip():
            return True
        if AVERAGE.match(text):
            self.columns = ()
            return True
        if TITLE.match(text) or not self.columns:
            return bool(self.first) and not TITLE.match(text) and self._between(text)
        clock_s, rest = _after_clock(text)
        cells = rest.split()
        if _table(tuple(cells)) is not None or len(cells) < len(self.columns):
            return False
        if self.table == "vmstat" and text.lstrip().startswith("procs"):
            return True
        row = dict(
            zip(self.columns, (*cells[: len(self.columns) - 1], " ".join(cells[len(self.columns) - 1 :])), strict=True)
        )
        values = [(counter, value) for counter, value in self._values(row)]
        if not values:
            return False
        self._take(line, clock_s, row, values)
        return True

    def _between(self, text: str) -> bool:
        return text.lstrip().startswith("procs")

    def _take(self, line: int, clock_s: int | None, row: dict[str, str], values: list[tuple[str, float]]) -> None:
        if clock_s is not None and clock_s == self.head_s:
            return
        if self.since_start:
            self.first_rows += [(line, counter, value, self._part(row)) for counter, value in values]
            if self.table == "vmstat":
                self.since_start = False
            return
        part = self._part(row)
        at = self._when(clock_s, part)
        if self.table == "vmstat" and (stated := moment(row[self.columns[-1]])) is not None:
            at = stated
        for counter, value in values:
            self.readings.add(counter, value, line, tick=self.tick, at=at, part=part)

    def _part(self, row: dict[str, str]) -> str:
        match self.table:
            case "CPU":
                name = row.get("CPU", "all")
                return "" if name == "all" else f"cpu{name}"
            case "PID":
                return f"{row['PID']} {row.get('Command', '') or row.get('COMMAND', '')}".strip()
            case "IFACE":
                return row["IFACE"]
            case "DEV":
                return row[self.columns[0]]
            case _:
                return ""

    def _when(self, clock_s: int | None, part: str) -> Moment:
        """Counts readings by time of day, else by the part that appears again; and the time where a day is known."""
        if clock_s is None:
            own = (self.columns, part)
            if own in self.seen:
                self.tick += 1
                self.seen = set()
            self.seen.add(own)
            return self.at
        if not self.clock_s or clock_s != self.clock_s[-1]:
            if self.clock_s and clock_s < self.clock_s[-1] - DAY_S // 2:
                self.days += 1
            self.tick += bool(self.clock_s)
            self.clock_s.append(clock_s)
        if self.day is None:
            return UNKNOWN
        stamp = f"{(self.day + timedelta(days=self.days)).isoformat()} {_hms(clock_s)}"
        return moment(stamp) or UNKNOWN

    def _values(self, row: dict[str, str]) -> Iterator[tuple[str, float]]:
        found: dict[str, float] = {}
        for name, (counter, scale) in COLUMNS[self.table].items():
            read = number(row.get(name, "").removesuffix("%"))
            if read is None:
                continue
            value = read[0] * scale
            if counter in SUMMED:
                found[counter] = found.get(counter, 0.0) + value
            else:
                found[counter] = value
        if "cpu_idle_pct" in found:
            others = ("cpu_idle_pct", "cpu_iowait_pct", "cpu_steal_pct")
            found["cpu_busy_pct"] = max(100.0 - sum(found.get(each, 0.0) for each in others), 0.0)
        if (requests := _requests(row)) is not None and self.table == "DEV":
            found["disk_requests_per_s"] = requests
            if requests <= 0.0:  # no request has a wait
                found.pop("disk_wait_ms", None)
                yield from found.items()
                return
        if "disk_wait_ms" not in found and (wait_ms := _mean_wait(row)) is not None:
            found["disk_wait_ms"] = wait_ms
        yield from found.items()

    def close(self) -> None:
        """The interval by the times of day; of a single table of iostat or vmstat its rows, as there are no others."""
        if self.first_rows and len(self.readings):
            self.readings.note(SINCE_BOOT.format(self.readings.tool))
        if not len(self.readings) and self.readings.tool in ("iostat", "vmstat"):
            self.readings.since_start = bool(self.first_rows)
            for line, counter, value, part in self.first_rows:
                self.readings.add(counter, value, line, part=part)
        steps = [
            later - earlier for earlier, later in zip(self.clock_s, self.clock_s[1:], strict=False) if later > earlier
        ]
        if steps:
            self.readings.interval_s = float(median(steps))


def _requests(row: dict[str, str]) -> float | None:
    """Requests per second; None where they are not printed."""
    rates = [read[0] for name in (*RATES, "tps") if (read := number(row.get(name, ""))) is not None]
    return sum(rates) if rates else None


def _mean_wait(row: dict[str, str]) -> float | None:
    """The time of a request where only those of a read and of a write are printed, as iostat does since version 12: by
    how many there are of each; where that is not printed the longer one."""
    waits = [read[0] for name in WAITS if (read := number(row.get(name, ""))) is not None]
    rates = [read[0] for name in RATES if (read := number(row.get(name, ""))) is not None]
    if len(waits) < len(WAITS) or len(rates) < len(RATES):
        return max(waits, default=None)
    return sum(wait * rate for wait, rate in zip(waits, rates, strict=True)) / sum(rates) if sum(rates) else None


def _table(columns: tuple[str, ...]) -> str | None:
    """The kind of table that a header begins; None where these are no columns of one."""
    if columns[:3] == VMSTAT:
        return "vmstat"
    if columns and columns[0] == IOSTAT_CPU:
        return "CPU"
    if "PID" in columns and "Command" in columns:
        return "PID"
    key = next((KEYS[each] for each in columns[:1] if each in KEYS), "")
    known = COLUMNS[key]
    return key if any(each in known for each in columns[bool(key) :]) else None


def _after_clock(text: str) -> tuple[int | None, str]:
    """The time of day in seconds and what follows it; None where the line does not begin with one."""
    match = CLOCK.match(text) or CJK_CLOCK.match(text)
    if match is None:
        return None, text
    hour = int(match[1])
    if match[4]:
        hour = hour % 12 + 12 * (match[4] == "PM")
    clock_s = hour * 3600 + int(match[2]) * 60 + int(match[3])
    return (clock_s, match[5]) if clock_s < DAY_S else (None, text)


def _hms(clock_s: int) -> str:
    return f"{clock_s // 3600:02d}:{clock_s // 60 % 60:02d}:{clock_s % 60:02d}"


def _date(text: str) -> date | None:
    """The day of a title where its order is certain: 2026-11-23 and 11/23/2026; 04/08/2019 may be in April or in
    August."""
    try:
        if (of_us := MONTH_FIRST.match(text)) and int(of_us[2]) > MONTHS:
            year = int(of_us[3]) + (CENTURY if len(of_us[3]) == 2 else 0)
            return date(year, int(of_us[1]), int(of_us[2]))
        return date(*map(int, match.groups())) if (match := ISO.match(text)) else None
    except ValueError:
        return None
