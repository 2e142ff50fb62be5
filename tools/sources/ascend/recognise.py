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


def csv_kind(start: bytes) -> str | None:
    """The kind of a CSV file that begins so, a key of ``MARKS``; None where it is none of these."""
    line, _, _ = start.decode("utf-8", "replace").removeprefix(BOM).partition("\n")
    try:
        columns = {column.strip() for column in next(csv.reader([line.rstrip("\r")]), [])}
    except csv.Error:
        return None
    return next((name for name, marks in MARKS.items() if marks <= columns), None)


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
