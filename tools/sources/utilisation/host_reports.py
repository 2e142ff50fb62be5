"""What tools print of a machine at one moment: ``free``, ``df``, the head of ``top``; tests of storage by ``fio``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings

FREE_HEAD = re.compile(r"\s+total\s+used\s+free\s+shared\s+buff/cache\s+available\s*\Z")
FREE_ROW = re.compile(r"(Mem|Swap):((?:\s+\d{1,15}(?:\.\d{1,3})?[KMGTP]?i?B?)+)\s*\Z")
AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,3})?)([KMGTP]?)i?B?\Z")
POWERS = {name: 1024.0**power for power, name in enumerate(" KMGTP")} | {"": 1.0}
DF_HEAD = re.compile(r"Filesystem\s.*\s(?:Use%|Capacity)\s+Mounted on\s*\Z")
DF_ROW = re.compile(r"\S{1,200}\s+\S{1,20}\s.*?\s(\d{1,3})%\s+(/\S{0,200})\s*\Z")
TOP_HEAD = re.compile(r"top - \d\d:\d\d:\d\d up .*load average: \d")
TOP_TASKS = re.compile(r"\s*(?:Tasks|Threads):\s+\d{1,9} total,\s+(\d{1,9}) running\b")
TOP_CPU = re.compile(r"\s*%?Cpu\(s\):\s*(\S.*)")
TOP_SHARE = re.compile(r"(\d{1,3}[.,]\d)[ %]+(us|sy|ni|id|wa|hi|si|st)\b")
TOP_COUNTERS = {
    **{"sy": "cpu_system_pct", "id": "cpu_idle_pct", "wa": "cpu_iowait_pct", "st": "cpu_steal_pct"},
}
FIO_JOB = re.compile(r"(\S{1,60}): \(groupid=\d{1,4}, jobs=(\d{1,5})\): err=")
FIO_RATE = re.compile(
    r"\s+(read|write)\s*: ?IOPS=(\d{1,9}(?:\.\d{1,3})?)([kM]?), BW=(\d{1,9}(?:\.\d{1,3})?)([KMGT]?)iB/s"
)
FIO_WAIT = re.compile(r"\s+clat \((nsec|usec|msec)\): min=.{1,40}?avg=\s*(\d{1,12}(?:\.\d{1,3})?)")
FIO_DETAIL = re.compile(r"\s+(?:read|write|[sc]?lat|bw|iops|cpu|IO depths|submit|complete|issued|latency|\|)\b|\s+\|")
FIO_TIMES = {"nsec": 1e-6, "usec": 1e-3, "msec": 1.0}
THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6}
LEAST_SHARES = 4  # of the line of processors


@dataclass
class HostReports:
    """One report after the other."""

    readings: Readings = field(default_factory=lambda: Readings("reports of a machine"))
    kind: str = ""
    job: str = ""
    tick: int = -1
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """The head of a report."""
        kinds = (("free", FREE_HEAD), ("df", DF_HEAD), ("top", TOP_HEAD), ("fio", FIO_JOB))
        kind = next((kind for kind, head in kinds if head.match(text)), "")
        headless = not kind and self.kind != "top" and bool(TOP_CPU.match(text) or TOP_TASKS.match(text))
        if not kind and not headless:
            return False
        self.kind, self.at, self.tick = kind or "top", at, self.tick + 1
        self.readings.tool = self.kind
        self.readings.since_start |= self.kind == "top"
        job = FIO_JOB.match(text)
        self.job = job[1] if job is not None else ""
        return not headless or self.takes(line, text)

    def takes(self, line: int, text: str) -> bool:
        """A row of the present report."""
        match self.kind:
            case "free":
                return self._memory(line, text)
            case "df":
                return self._file_system(line, text)
            case "top":
                return self._processors(line, text)
            case "fio":
                return self._tested(line, text)
        return False

    def _memory(self, line: int, text: str) -> bool:
        """Shares alone: the unit of plain numbers depends on an option that is not printed."""
        match = FREE_ROW.match(text)
        cells = [AMOUNT.match(each) for each in match[2].split()] if match is not None else []
        amounts = [float(each[1]) * POWERS[each[2]] for each in cells if each is not None]
        if match is None or len(amounts) < 3 or amounts[0] <= 0:
            return match is not None
        if match[1] == "Swap":
            self._add("swap_used_pct", 100.0 * amounts[1] / amounts[0], line)
        elif len(amounts) == 6:
            self._add("memory_available_pct", 100.0 * amounts[5] / amounts[0], line)
        return True

    def _file_system(self, line: int, text: str) -> bool:
        match = DF_ROW.match(text)
        if match is not None:
            self._add("disk_used_pct", float(match[1]), line, match[2])
        return match is not None

    def _processors(self, line: int, text: str) -> bool:
        if match := TOP_TASKS.match(text):
            self._add("runnable_processes", float(match[1]), line)
            return True
        if match := TOP_CPU.match(text):
            shares = {name: float(value.replace(",", ".")) for value, name in TOP_SHARE.findall(match[1])}
            if len(shares) >= LEAST_SHARES and "id" in shares:
                for name, counter in TOP_COUNTERS.items():
                    if name in shares:
                        self._add(counter, shares[name], line)
                lost = sum(shares.get(name, 0.0) for name in ("id", "wa", "st"))
                self._add("cpu_busy_pct", max(100.0 - lost, 0.0), line)
            return True
        return text.lstrip().startswith(("MiB ", "KiB ", "GiB ", "Mem", "Swap"))

    def _tested(self, line: int, text: str) -> bool:
        if match := FIO_RATE.match(text):
            self.job = f"{self.job.partition(' ')[0]} {match[1]}"
            self._add("tested_requests_per_s", float(match[2]) * THOUSANDS[match[3]], line, self.job)
            self._add("tested_storage_bytes_per_s", float(match[4]) * POWERS[match[5]], line, self.job)
        elif match := FIO_WAIT.match(text):
            self._add("tested_storage_wait_ms", float(match[2]) * FIO_TIMES[match[1]], line, self.job)
        return FIO_DETAIL.match(text) is not None

    def _add(self, counter: str, value: float, line: int, part: str = "") -> None:
        self.readings.add(counter, value, line, tick=self.tick, at=self.at, part=part)
