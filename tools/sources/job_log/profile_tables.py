"""Tables that profilers print: torch.profiler, nvprof, ``nsys stats``, cProfile, line_profiler, DeepSpeed's flops.

Each may be an excerpt: rows are known by their own form where the head is missing. Formats: ``EventList.table`` of
PyTorch; nvprof's summary (CUDA Profiler User's Guide, "Summary Mode"); ``nsys stats`` of 2019 to 2025 (Nsight Systems
User Guide, "Report Scripts"); ``pstats``; line_profiler's ``show_text``; ``FlopsProfiler.print_model_profile``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol

from tools.sources.job_log.numbers import in_ms, number
from tools.sources.job_log.tables import LONGEST_ACTION, MOST_ROWS, RULE, Action

HOST, DEVICE = "torch.profiler", "torch.profiler, device"
GPU_WORK, API_CALLS = "nvprof", "nvprof, API calls"
SPACES = re.compile(r"\s{2,}")
WITH_UNIT = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(us|ms|s)\Z")
SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)%\Z")
WHOLE_PCT = 100.0
_TIME, _PCT = r"-?[\d.]{1,20}(?:us|ms|s)", r"-?[\d.]{1,12}%|NaN"
# Name, then Self CPU %, Self CPU, CPU total %, CPU total, CPU time avg; perhaps those of the device; the calls.
KEY_ROW = re.compile(
    rf"\s*(?P<name>\S.{{0,300}}?)\s{{2,}}(?P<host_pct>{_PCT})\s+(?P<host>{_TIME})\s+(?:{_PCT})\s+(?:{_TIME})\s+(?:{_TIME})"
    rf"(?:\s+(?P<device>{_TIME})\s+(?P<device_pct>{_PCT})\s+(?:{_TIME})\s+(?:{_TIME}))?"
    r"(?:\s+-?[\d.]{1,12} [KMGT]?b)*\s+(?P<calls>\d{1,12})(?:\s|\Z)"
)
SELF_DEVICE = tuple(f"Self {device}" for device in ("CUDA", "NPU", "XPU", "MTIA", "PrivateUse1"))
# Ranges of the program, which the profiler also draws on the device: they contain the kernels.
RANGE = re.compile(
    r"\[(?!CUDA)|ProfilerStep|## |nn\.Module|Optimizer\.|DistributedDataParallel|FullySharded|enumerate\("
)
OF_CALLS = ("# of Calls", "Number of Calls")


class Table(Protocol):
    """An open table: ``take`` says whether a line belongs to it."""

    rows: list[Action]

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the table has ended."""


@dataclass
class KeyAverages:
    """Rows of ``Name  Self CPU %  Self CPU ... Self CUDA ... # of Calls`` of torch.profiler, units in the cells.

    Own times of the host and of the device are a row each. What takes more than the whole is a range of the program
    that the profiler also drew on the device, and what is below zero is an error of the profiler: both are left out.
    """

    columns: tuple[str, ...] = ()
    rows: list[Action] = field(default_factory=list)

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the table has ended."""
        if RULE.match(text) or key_averages(text) is not None:
            return True
        cells = SPACES.split(text.strip())
        if self.columns and len(cells) == len(self.columns):
            values = dict(zip(self.columns, cells, strict=True))
            calls = number(next((values[name] for name in OF_CALLS if name in values), ""))
            own = values.get("Self CPU", values.get("Self CPU total", ""))
            shared = values.get("Self CPU %", values.get("Self CPU total %", ""))
            device = next((name for name in SELF_DEVICE if name in values), "")
            self._add(HOST, cells[0], own, shared, calls, number_of_line)
            self._add(DEVICE, cells[0], values.get(device, ""), values.get(f"{device} %", ""), calls, number_of_line)
        elif row := KEY_ROW.match(text):
            calls = number(row["calls"])
            self._add(HOST, row["name"], row["host"], row["host_pct"], calls, number_of_line)
            self._add(DEVICE, row["name"], row["device"] or "", row["device_pct"] or "", calls, number_of_line)
        else:
            return False
        return len(self.rows) < MOST_ROWS

    def _add(self, table: str, name: str, own: str, shared: str, calls: float | None, line: int) -> None:
        time, share = WITH_UNIT.match(own), SHARE.match(shared)
        total_ms = in_ms(time[1], time[2]) if time is not None else None
        share_pct = float(share[1]) if share is not None else None
        drawn = table == DEVICE and RANGE.match(name)
        if total_ms is None or drawn or (share_pct is not None and share_pct > WHOLE_PCT):
            return
        mean_ms = total_ms / calls if calls else None
        self.rows.append(Action(table, name[:LONGEST_ACTION], calls, total_ms, mean_ms, line, share_pct))


def key_averages(text: str) -> KeyAverages | None:
    """The table that a head line begins."""
    columns = tuple(SPACES.split(text.strip()))
    own = "Self CPU" in columns or "Self CPU total" in columns
    return KeyAverages(columns) if columns[0] == "Name" and own else None


_UNIT_TIME = r"(?:\d{1,12}(?:\.\d{1,9})?)(?:ns|us|ms|s)"
NVPROF_ROW = re.compile(
    rf"\s*(?:(?P<part>GPU activities|API calls):)?\s*(?P<pct>\d{{1,3}}\.\d\d)%\s+(?P<total>{_UNIT_TIME})\s+"
    rf"(?P<calls>\d{{1,12}})\s+(?P<mean>{_UNIT_TIME})\s+{_UNIT_TIME}\s+{_UNIT_TIME}\s+(?P<name>\S.*)"
)
NVPROF_PART = re.compile(r"(?:==\d+== )?(Profiling result|GPU activities|API calls):\s*\Z")
NS_MS = 1e-6


@dataclass
class NvprofTable:
    """Rows of nvprof's summary: ``GPU activities: 99.04%  4.42518s  3094192  1.4300us  1.1520us  11.616us  name``."""

    rows: list[Action] = field(default_factory=list)
    _table: str = GPU_WORK

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the table has ended."""
        if part := NVPROF_PART.match(text.strip()):
            self._table = API_CALLS if part[1] == "API calls" else GPU_WORK
        elif row := NVPROF_ROW.match(text):
            if row["part"]:
                self._table = API_CALLS if row["part"] == "API calls" else GPU_WORK
            total_ms, mean_ms = _stated_ms(row["total"]), _stated_ms(row["mean"])
            name, calls = row["name"].strip()[:LONGEST_ACTION], float(row["calls"])
            self.rows.append(Action(self._table, name, calls, total_ms, mean_ms, number_of_line, float(row["pct"])))
        else:
            return "Time(%)" in text
        return len(self.rows) < MOST_ROWS


def _stated_ms(text: str) -> float:
    if text.endswith("ns"):
        return float(text[:-2]) * NS_MS
    digits = text.rstrip("mus")
    return in_ms(digits, text[len(digits) :]) or 0.0


NSYS_PCT = re.compile(r"\s*Time ?\(%\)\s")
NSYS_TITLE = re.compile(r"(?:\*\* )?([\w :/()-]{3,80}?(?:Statistics|Summary|Summary \(\w+\)))\s*:?.{0,60}\Z")
NSYS_TABLES = (  # by what the title holds, the first that fits
    (re.compile(r"kern", re.I), "nsys, kernels"),
    (re.compile(r"by size|_size_", re.I), ""),
    (re.compile(r"mem", re.I), "nsys, copies on the device"),
    (re.compile(r"nvtx", re.I), "nsys, NVTX ranges"),
    (re.compile(r"os ?run|osrt", re.I), "nsys, calls of the operating system"),
    (re.compile(r"api", re.I), "nsys, CUDA API"),
)
NSYS_COUNTS = ("Instances", "Calls", "Num Calls", "Count", "Operations")
NSYS_NAMES = ("Name", "Operation", "Range")


@dataclass
class NsysTable:
    """Rows of a table of ``nsys stats``: share, total, calls, mean, and the name in the last column."""

    columns: tuple[str, ...]
    table: str
    rows: list[Action] = field(default_factory=list)

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the table has ended."""
        if RULE.match(text):
            return True
        cells = text.split(None, len(self.columns) - 1)
        if len(cells) != len(self.columns):
            return False
        values = dict(zip(self.columns, cells, strict=True))
        share, total = number(cells[0].rstrip("%")), number(cells[1].replace(",", ""))
        counted = next((values[name] for name in NSYS_COUNTS if name in values), "").replace(",", "")
        calls = number(counted)
        if share is None or total is None or not calls or share > WHOLE_PCT:
            return False
        total_ms = total * NS_MS
        name = cells[-1].strip()[:LONGEST_ACTION]
        self.rows.append(Action(self.table, name, calls, total_ms, total_ms / calls, number_of_line, share))
        return len(self.rows) < MOST_ROWS


def nsys_table(text: str, title: str) -> NsysTable | None:
    """The table that a head line begins, below the last title; None where it is no table of times."""
    if not NSYS_PCT.match(text) or "Total" not in text:
        return None
    columns = tuple(SPACES.split(text.strip()))
    timed = columns[1].startswith("Total Time")
    if not timed or columns[-1] not in NSYS_NAMES or not any(name in columns for name in NSYS_COUNTS):
        return None
    known = next((name for words, name in NSYS_TABLES if words.search(title)), "nsys")
    return NsysTable(columns, known) if known else None


PSTATS_TOTAL = re.compile(
    r"\s*\d{1,15} function calls(?: \(\d{1,15} primitive calls\))? in (\d{1,9}\.\d{1,9}) seconds\s*\Z"
)
PSTATS_HEAD = re.compile(r"\s*ncalls\s+tottime\s+percall\s+cumtime\s+percall\s+filename:lineno\(function\)\s*\Z")
PSTATS_ROW = re.compile(
    r"\s*(\d{1,12})(?:/\d{1,12})?\s+(\d{1,9}\.\d{1,6})\s+\d{1,9}\.\d{1,6}\s+\d{1,9}\.\d{1,6}\s+\d{1,9}\.\d{1,6}\s+(\S.*)"
)


@dataclass
class PstatsTable:
    """Rows of cProfile: own time of each function (``tottime``), its share where the line with the total is there."""

    whole_ms: float | None = None
    rows: list[Action] = field(default_factory=list)

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the table has ended."""
        row = PSTATS_ROW.match(text)
        if row is None:
            return not text.strip()
        total_ms, calls = 1e3 * float(row[2]), float(row[1])
        share = 100.0 * total_ms / self.whole_ms if self.whole_ms else None
        name = row[3].strip()[:LONGEST_ACTION]
        self.rows.append(Action("cProfile", name, calls, total_ms, total_ms / max(calls, 1.0), number_of_line, share))
        return len(self.rows) < MOST_ROWS


LINES_UNIT = re.compile(r"Timer unit: (\d(?:\.\d{1,9})?(?:e-?\d{1,2})?) s\s*\Z")
LINES_HEAD = re.compile(r"Line #\s+Hits\s+Time\s+Per Hit\s+% Time\s+Line Contents\s*\Z")
LINES_ROW = re.compile(r"\s*(\d{1,7})\s+(\d{1,12})\s+(\d{1,15}(?:\.\d{1,6})?)\s+[\d.]{1,15}\s+(\d{1,3}\.\d)\s+(\S.*)")


@dataclass
class LinesTable:
    """Rows of line_profiler: the time of each line of a function, in its timer's unit."""

    unit_s: float = 1e-6
    rows: list[Action] = field(default_factory=list)

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the table has ended."""
        if row := LINES_ROW.match(text):
            calls, total_ms = float(row[2]), 1e3 * self.unit_s * float(row[3])
            name = f"line {row[1]}: {row[5].strip()}"[:LONGEST_ACTION]
            mean_ms = total_ms / max(calls, 1.0)
            self.rows.append(Action("line_profiler", name, calls, total_ms, mean_ms, number_of_line, float(row[4])))
        elif not RULE.match(text) and not re.match(r"\s*\d{1,7}(?:\s|\Z)", text):
            return False
        return len(self.rows) < MOST_ROWS


XLA = "torch_xla"
XLA_METRIC = re.compile(r"\s*Metric: (\w{1,80})\s*\Z")
XLA_TIMED = re.compile(r"\s*Metric: (?:Compile|Execute|TransferTo\w+|TransferFrom\w+)Time\s*\Z")
XLA_COUNT = re.compile(r"\s*TotalSamples: (\d{1,12})\s*\Z")
XLA_TOTAL = re.compile(
    r"\s*Accumulator: (?=\d)(?:(\d{1,4})d)?(?:(\d{1,3})h)?(?:(\d{1,3})m(?!s))?(?:(\d{1,3})s)?(?:(\d{1,4})ms)?"
    r"(?:(\d{1,4}(?:\.\d{1,6})?)us)?\s*\Z"
)
XLA_OTHER = re.compile(r"\s*(?:Accumulator|ValueRate|Rate|Percentiles|Counter|Value): ")
XLA_PARTS_MS = (86_400e3, 3600e3, 60e3, 1e3, 1.0, 1e-3)


@dataclass
class XlaMetrics:
    """``torch_xla.debug.metrics.metrics_report()``: times of a metric over all of its samples."""

    rows: list[Action] = field(default_factory=list)
    _name: str = ""
    _count: float = 0.0

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a line; False where the report has ended."""
        if name := XLA_METRIC.match(text):
            self._name, self._count = name[1], 0.0
        elif count := XLA_COUNT.match(text):
            self._count = float(count[1])
        elif (total := XLA_TOTAL.match(text)) and self._count:
            total_ms = sum(float(part or 0) * unit for part, unit in zip(total.groups(), XLA_PARTS_MS, strict=True))
            self.rows.append(Action(XLA, self._name, self._count, total_ms, total_ms / self._count, number_of_line))
        elif not XLA_OTHER.match(text):
            return False
        return len(self.rows) < MOST_ROWS


FLOPS_ROW = re.compile(r"(fwd|bwd|step|iter) latency: +(\d{1,9}(?:\.\d{1,6})?) (s|ms|us)\s*\Z")


@dataclass
class ProfileTables:
    """What opens a table, and what lines before it say of its unit, its total or its kind."""

    title: str = ""
    whole_ms: float | None = None
    unit_s: float = 1e-6

    def opens(self, text: str) -> Table | None:
        """The table that a line begins; None where it begins none."""
        if "Self CPU" in text:
            return key_averages(text)
        if "%" in text:
            if KEY_ROW.match(text):
                return KeyAverages()
            if NVPROF_ROW.match(text):
                return NvprofTable()
            if LINES_HEAD.match(text.strip()):
                return LinesTable(self.unit_s)
            return nsys_table(text, self.title)
        return self._without_shares(text)

    def _without_shares(self, text: str) -> Table | None:
        if "Metric: " in text and XLA_METRIC.match(text):
            return XlaMetrics()
        if NVPROF_PART.match(text.strip()):
            return NvprofTable(_table=API_CALLS if "API" in text else GPU_WORK)
        if "ncalls" in text and PSTATS_HEAD.match(text):
            return PstatsTable(self.whole_ms)
        if "function calls" in text and (total := PSTATS_TOTAL.match(text)):
            self.whole_ms = 1e3 * float(total[1])
        elif "Timer unit" in text and (unit := LINES_UNIT.match(text.strip())):
            self.unit_s = float(unit[1])
        elif ("Statistics" in text or "Summary" in text) and (title := NSYS_TITLE.match(text.strip())):
            self.title = title[1]
        return None


def flops_row(number_of_line: int, text: str) -> Action | None:
    """A latency of DeepSpeed's flops profiler, of one profiled step."""
    row = FLOPS_ROW.match(text.strip())
    time_ms = None if row is None else in_ms(row[2], row[3])
    if row is None or time_ms is None:
        return None
    return Action("DeepSpeed flops profiler", row[1], 1.0, time_ms, time_ms, number_of_line)


def holds_row(text: str) -> bool:
    """Whether the line is the head or a row of such a table, so that a file with it is output of a job."""
    if "%" in text and (KEY_ROW.match(text) or NVPROF_ROW.match(text)):
        return True
    if key_averages(text) is not None or flops_row(0, text) is not None:
        return True
    if XLA_TIMED.match(text):
        return True
    heads = PSTATS_HEAD.match(text) or LINES_HEAD.match(text.strip())
    return bool(heads) or nsys_table(text, "") is not None
