"""Files of a run folder that look like a profile or a log and that no reader takes: what each is, and what it lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.sources.ascend.recognise import STEPS, missing_columns, separator, text_of
from tools.sources.decompress import beginning, unpacked_name
from tools.sources.job_log.source import NOTHING_STATED
from tools.sources.known_forms import known_form
from tools.sources.nsys.recognise import CALLS, EXPORTED, KERNELS, STRINGS
from tools.sources.sqlite_file import MAGIC, open_database

MOST_LOOKED_AT = 256  # files
MOST_NAMED = 3
LOOKED_AT_BYTES = 1 << 14
MOST_NAMES = 4  # of tables or columns that a file holds
LONGEST_NAME = 60
NEARLY = "looks like"  # a known format that lacks something: named first
PICKLE = re.compile(rb"\x80[\x02-\x05]")
PARQUET = b"PAR1"
LOG_NAME = re.compile(r".+\.(?:log|out|err|stdout|stderr)\Z", re.I)
PROFILE_NAME = re.compile(
    r".*(?:trace|prof|timeline|metric|smi|dmon|dcgm|nccl|flight|py-?spy|kernel|snapshot|stack).*\Z", re.I
)
# Reports of other profilers, by how their names end: what makes them readable.
REPORTS = {
    ".nsys-rep": "a report of Nsight Systems; export it with `nsys export --type sqlite`",
    ".qdrep": "a report of Nsight Systems; export it with `nsys export --type sqlite`",
    ".ncu-rep": "a report of Nsight Compute on single kernels, which is not read; record the run with Nsight Systems",
    ".pftrace": "a Perfetto trace in its binary form, which is not read; export JSON",
    ".qdstrm": "an unfinished recording of Nsight Systems; import it with `QdstrmImporter` and export SQLite",
}
ROCPD = re.compile(r"rocpd_\w+\Z")


def unread_line(files: Sequence[Path]) -> str:
    """One sentence that names those of the files that look like a profile or a log, and why none was read; "" for none.

    Only the first ones are named and all of ``MOST_LOOKED_AT`` are looked at; none is loaded as a whole.
    """
    found = [(file, what) for file in files[:MOST_LOOKED_AT] if (what := looks_like(file))]
    if not found:
        return ""
    found.sort(key=lambda each: not each[1].startswith(NEARLY))
    named = "; ".join(f"{_name(file.name)} ({what})" for file, what in found[:MOST_NAMED])
    rest = len(found) - MOST_NAMED
    more = f"; and {rest} more" if rest > 0 else ""
    return f"Not read: {named}{more}"


def looks_like(path: Path) -> str:
    """What a file that no reader takes looks like and what it lacks; "" where it looks like no profile and no log."""
    name = unpacked_name(path)
    for ending, what in REPORTS.items():
        if name.lower().endswith(ending):
            return what
    try:
        start = bytes(beginning(path, LOOKED_AT_BYTES).data)
        return _by_content(path, name, start) if start else ""
    except (OSError, InputError):
        return "it cannot be read" if LOG_NAME.match(name) or PROFILE_NAME.match(name) else ""


def _by_content(path: Path, name: str, start: bytes) -> str:
    if start.startswith(MAGIC):
        return _of_tables(path)
    if start.startswith(PARQUET):
        return _of_columns(path)
    if PICKLE.match(start):
        if name.endswith((".pt", ".pth", ".bin", ".ckpt")):
            return ""
        return (
            "a pickle, but neither a flight recorder's dump (`entries`) nor a snapshot of PyTorch's allocator "
            "(`segments`) at its top"
        )
    if name.endswith(".pb"):
        return "protocol buffers, but not the planes of XProf (`.xplane.pb`)"
    if start.lstrip()[:1] in (b"{", b"[") and PROFILE_NAME.match(name):
        return _of_json(start)
    if LOG_NAME.match(name) or name.endswith(".txt"):
        return known_form(start) or (f"text, but {NOTHING_STATED}" if LOG_NAME.match(name) else "")
    if name.endswith((".csv", ".tsv")) and (near := missing_columns(name, start)) is not None and near[1]:
        return f"looks like {near[0]} of an Ascend profiler, but columns {_listed(near[1])} are absent or renamed"
    if name.endswith((".csv", ".tsv")) and PROFILE_NAME.match(name):
        text = text_of(start)
        head = text.partition("\n")[0]
        columns = [cell.strip().strip('"') for cell in head.split(separator(text)) if cell.strip()]
        return f"a table, but its columns ({_listed(columns)}) are of no known one, nor a step with its time"
    return ""


def _of_json(start: bytes) -> str:
    if b'"ph"' in start:
        return "JSON with events, but no list of `traceEvents` that can be read"
    return "JSON, but no `traceEvents` of a profiler and no known record"


def _of_tables(path: Path) -> str:
    """What a SQLite file holds and which tables of the nearest known export it lacks."""
    with open_database(path) as database:
        tables = list(database.columns)
    known = [table for table in EXPORTED if table in tables]
    if known or any(table.startswith("CUPTI_ACTIVITY_KIND_") for table in tables):
        return f"looks like an Nsight Systems export, but table {STRINGS} is absent; export it again with nsys"
    if STRINGS in tables:
        return f"looks like an Nsight Systems export, but tables {KERNELS}, {CALLS} and all others of events are absent"
    if any(ROCPD.match(table) for table in tables):
        return "a database of rocprofv3 (rocpd), which is not read; record the same steps with torch.profiler"
    if "STRING_IDS" in tables or "TASK" in tables:
        return f"looks like a database of an Ascend profiler, but its tables of work and {STEPS[0]} are absent"
    held = f"it holds {_listed(tables)}" if tables else "it holds no table"
    return f"a SQLite file, but without {STRINGS} and {KERNELS} of Nsight Systems or tables of Ascend's; {held}"


def _of_columns(path: Path) -> str:
    """What a Parquet file holds and which columns of a straggler study's table it lacks."""
    from tools.sources.straggler_analysis.reader import COLUMNS, column_names

    try:
        held = column_names(path)
    except (OSError, ValueError):
        return "looks like a Parquet table, but cannot be opened: it is cut or damaged"
    missing = [column for column in COLUMNS if column not in held]
    if 2 * len(missing) <= len(COLUMNS):
        return f"looks like a StragglerAnalysis table, but columns {_listed(missing)} are absent"
    return f"a Parquet table, but its columns ({_listed(held)}) are not those of StragglerAnalysis"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(_name(each) for each in names[:MOST_NAMES])
    return f"{shown}, ..." if len(names) > MOST_NAMES else shown


def _name(name: str) -> str:
    """A name of the file's own, printable and bounded."""
    text = "".join(char if char.isprintable() and char not in "`[]{}" else "?" for char in name)
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
