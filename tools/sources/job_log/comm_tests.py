"""Tables of nccl-tests in a job's output, and rows of them that stand without their head."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.job_log.numbers import NUMBER, number
from tools.sources.job_log.tables import MOST_ROWS

# Size, count and type; behind them the operation and the root, each as far as the table has such a column.
TEST_ROW = re.compile(r"\s*(\d{1,15})\s+(\d{1,15})\s+([a-z]\w{2,12})\b")
TEST_COLUMNS = re.compile(r"#\s+size\s+count\s+type\b(.{0,60}?)\btime\b.{0,60}\bbusbw\b")
WHOLE = re.compile(r"-?\d{1,9}\Z")
TEST_HEAD = re.compile(r"#\s+size\s+count\s+type\s+redop\b.*\bbusbw\b")
TEST_BEGIN = re.compile(r"# (?:Collective test starting: \w|nThreads? \d+ nGpus \d+ minBytes \d)")
TEST_NAME = re.compile(r"# Collective test starting: (\w+?)(?:_mpi)?\b|\b(\w+_perf)\b")
TEST_AVERAGE = re.compile(rf"# Avg bus bandwidth\s*:\s*({NUMBER})")
TEST_RANK = re.compile(r"#\s+Rank\s+(\d{1,7})\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S{1,80})\s+device")
TEST_FIELDS = 4  # time in us, algbw and busbw in GB/s, the number of wrong elements
WIDTHS = {
    **dict.fromkeys(("int8", "uint8", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("float", "int32", "uint32"), 4),
    **dict.fromkeys(("double", "int64", "uint64"), 8),
}  # bytes of an element
ROUNDED_GB_PER_S, ROUNDED_SHARE = 0.011, 0.01  # of a bandwidth with two decimals and a time with four digits
BUS_FACTORS = (0.4, 2.01)  # of the bus bandwidth by the algorithm's (nccl-tests, doc/PERFORMANCE.md)
TESTED_WITHIN = 200_000  # lines from the head of the table to its end, NCCL's own output between


@dataclass(frozen=True, slots=True)
class CommTest:
    """One figure of an nccl-tests table: collective, size, placement, time and bandwidths."""

    kind: str
    size_bytes: int
    elements: int
    in_place: bool
    time_us: float
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    line: int


@dataclass
class CommTestTable:
    """Rows of one nccl-tests table, which NCCL's own output may tear into pieces."""

    line: int
    kind: str = ""
    rows: list[CommTest] = field(default_factory=list)
    _size: tuple[int, int] | None = None
    _fields: list[str] = field(default_factory=list)
    _in_place: bool = False
    _columns: tuple[str, ...] | None = None  # "redop" and "root", those that stand before the times; None: not known

    def take(self, number_of_line: int, text: str) -> None:
        """Read what a line holds of the table."""
        if text.lstrip().startswith("#"):
            if head := TEST_COLUMNS.search(text):
                self._columns = tuple(head[1].split())
            return
        parts = text.split()
        if (head := TEST_ROW.match(text)) and (figures := self._figures(text[head.end() :].split())) is not None:
            self._size, self._fields, self._in_place = (int(head[1]), int(head[2])), [], False
            parts = figures
        if self._size is None or len(self.rows) >= MOST_ROWS:
            return
        for part in parts:
            self._fields.append(part)
            if len(self._fields) == TEST_FIELDS:
                self._half(self._size, number_of_line)
                if self._in_place:
                    self._size = None
                    return
                self._fields, self._in_place = [], True

    def _figures(self, parts: list[str]) -> list[str] | None:
        """The figures behind the operation and the root; None where the line is no row."""
        operation = bool(parts) and number(parts[0]) is None
        parts = parts[1:] if operation else parts
        if not parts or number(parts[0]) is None:
            return None
        if self._columns is not None:
            rooted = "root" in self._columns
        else:  # with the fields of one placement or of two behind it, else of a torn line
            whole = len(parts) % TEST_FIELDS == 0
            rooted = not whole and (operation or len(parts) % TEST_FIELDS == 1)
        return parts[1:] if rooted and WHOLE.match(parts[0]) else parts

    def _half(self, size: tuple[int, int], line: int) -> None:
        """Four fields are one placement: out of place, then in place."""
        time, algorithm, bus = (number(part) for part in self._fields[:3])
        if time is not None and algorithm is not None and bus is not None and time > 0:
            self.rows.append(CommTest(self.kind, *size, self._in_place, time, algorithm, bus, line))


def headless_row(text: str) -> bool:
    """Whether the line by itself is a whole row of nccl-tests: its elements fill the size, and in each placement size
    over time gives the algorithm's bandwidth."""
    head = TEST_ROW.match(text)
    width = WIDTHS.get(head[3]) if head is not None else None
    if head is None or width is None or int(head[2]) <= 0 or int(head[1]) % (width * int(head[2])):
        return False
    table = CommTestTable(0)
    table.take(0, text)
    return len(table.rows) == 2 and all(map(_consistent, table.rows))


def goes_on(text: str) -> bool:
    """Whether a table without a head may go on with the line; any other line ends it."""
    return not text.strip() or text.lstrip().startswith("#") or headless_row(text)


def _consistent(row: CommTest) -> bool:
    by_time = row.size_bytes / row.time_us / 1e3
    agrees = abs(row.algbw_gb_per_s - by_time) <= ROUNDED_GB_PER_S + ROUNDED_SHARE * by_time
    low, high = (factor * row.algbw_gb_per_s for factor in BUS_FACTORS)
    return agrees and low - ROUNDED_GB_PER_S <= row.busbw_gb_per_s <= high + ROUNDED_GB_PER_S
