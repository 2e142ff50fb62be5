"""Recognises what an Ascend profiler writes by its content, apart from pandas: folders are listed often."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tools.errors import InputError
from tools.sources.decompress import beginning
from tools.sources.sqlite_file import is_sqlite, open_database

HEAD_BYTES = 16_384  # the first line of the widest table has some 1,500
BOM = "\ufeff"
SEPARATORS = (",", ";", "\t")  # spreadsheets of some countries write the others
NEARLY_SHARE = 0.5  # of the columns that make a table known: with so many it is meant to be one
# Columns that make a CSV file known. The first whose columns are all there.
MARKS: dict[str, frozenset[str]] = {
    "step_trace_time": frozenset(("Computing", "Communication(Not Overlapped)", "Free", "Stage")),
    "kernel_details": frozenset(("Name", "Type", "Start Time(us)", "Duration(us)")),
    "op_statistic": frozenset(("OP Type", "Count", "Total Time(us)")),
    "api_statistic": frozenset(("API Name", "Time(us)", "Count")),
    "operator_details": frozenset(("Name", "Host Self Duration(us)")),
    "operator_memory": frozenset(("Name", "Size(KB)", "Allocation Time(us)")),
    "memory_record": frozenset(("Component", "Timestamp(us)", "Total Allocated(MB)")),
    "npu_module_mem": frozenset(("Component", "Timestamp(us)", "Total Reserved(MB)")),
    "l2_cache": frozenset(("Task Id", "Hit Rate", "Victim Rate")),
    "data_preprocess": frozenset(("Node", "Compute_time(us)")),
}
COMMUNICATION = re.compile(
    rb'\s*\{\s*"(?:step\w*|\(\d[^"]{0,2000}\))"\s*:\s*\{\s*(?:"(?:p2p|collective)"|"(?:step\w*)"\s*:\s*\{)', re.DOTALL
)
LARGE_GROUP = re.compile(rb'\s*\{\s*"\(\d[\d, ]*\Z')  # its ranks fill all that is looked at
STEPS = ("StepTraceTime", "ClusterStepTraceTime")
TIMES, BANDWIDTH, MATRIX = "CommAnalyzerTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix"


def is_table(path: Path) -> bool:
    """Whether the file is one of the tables; False as well where it cannot be read."""
    try:
        if is_sqlite(path):
            return _holds_tables(path)
        start = bytes(beginning(path, HEAD_BYTES).data)
    except (OSError, InputError):
        return False
    return is_communication(start) or csv_kind(start) is not None


def is_communication(start: bytes) -> bool:
    """Whether a file that begins so is communication.json, communication_matrix.json, or a cluster's."""
    return COMMUNICATION.match(start) is not None or LARGE_GROUP.match(start) is not None


def text_of(data: bytes) -> str:
    """The text of a table: UTF-8, or UTF-16 as spreadsheets and some shells write it."""
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data.decode(encoding, "replace").removeprefix(BOM)
    start = data[:HEAD_BYTES]
    for encoding, zeros in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
        if zeros and zeros.count(0) > len(zeros) // 2:
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "replace").removeprefix(BOM)


def separator(text: str) -> str:
    """What separates the columns of a table with this first line: the most frequent outside of names."""
    line = text.partition("\n")[0]
    return max(SEPARATORS, key=line.count)


def columns_of(start: bytes) -> frozenset[str]:
    """The columns that the first line of a CSV file names."""
    text = text_of(start)
    line = text.partition("\n")[0].rstrip("\r")
    try:
        return frozenset(column.strip() for column in next(csv.reader([line], delimiter=separator(text)), []))
    except csv.Error:
        return frozenset()


def csv_kind(start: bytes) -> str | None:
    """The kind of a CSV file that begins so, a key of ``MARKS``; None where it is none of these."""
    columns = columns_of(start)
    return next((name for name, marks in MARKS.items() if marks <= columns), None)


def missing_columns(name: str, start: bytes) -> tuple[str, tuple[str, ...]] | None:
    """The table that a CSV file is meant to be, by its name or by most of its columns, and those that it lacks."""
    columns = columns_of(start)
    lacking = {kind: tuple(sorted(marks - columns)) for kind, marks in MARKS.items()}
    named = next((kind for kind, marks in MARKS.items() if kind in name and marks & columns), None)
    if named is not None:
        return named, lacking[named]
    nearest = min(MARKS, key=lambda kind: len(lacking[kind]) / len(MARKS[kind]))
    share = len(lacking[nearest]) / len(MARKS[nearest])
    return (nearest, lacking[nearest]) if len(MARKS[nearest]) > 3 and share < NEARLY_SHARE else None


def holds_timeline(path: Path) -> bool:
    """Whether the file is a database of a timeline; False as well where it cannot be read."""
    try:
        with open_database(path) as database:
            return database.has("STRING_IDS") and (database.has("TASK") or database.has("PYTORCH_API"))
    except InputError:
        return False


def _holds_tables(path: Path) -> bool:
    with open_database(path) as database:
        return any(each in database.columns for each in (*STEPS, TIMES, BANDWIDTH, MATRIX))
