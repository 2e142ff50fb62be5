"""Step logs, one file per rank: a JSON object per line and step, ``{"step": 12, "wall_ms": 95.2}`` and more, or the
table of steps of MindSpore's profiler (``step_trace_raw_<device>_detail_time.csv``), whose device is the rank."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tools.run.kinds import STEP_LOG_FORMAT
from tools.sources.decompress import beginning, decode_lines, unpacked_name
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

if TYPE_CHECKING:
    import pandas as pd

NAMES = re.compile(r"(?:steps_rank|step_trace_raw_)(\d{1,6})(?:\.jsonl|_detail_time\.csv)\Z")
TABLE = ".csv"
MEAN, WHOLE = "-", re.compile(r"\d{1,18}\Z", re.A)
COUNTS_PER_MS = 100_000  # of the table: its counter ticks every 10 ns
LARGEST_BYTES = 256 << 20
COLUMNS = {"rank": "int64", "step": "int64"} | dict.fromkeys(("wall_ms", "samples", "tokens", "loss"), "float64")


class _Line(msgspec.Struct):
    step: int
    wall_ms: float
    samples: float | None = None
    tokens: float | None = None
    loss: float | str | None = None  # a loss that is no number may be written as "nan"


def read_step_logs(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """One table of ``COLUMNS`` over all folders, of each rank its first log; None without any log."""
    import pandas as pd

    from tools.run.model import Source

    tables: dict[int, pd.DataFrame] = {}
    sources: list[Source] = []
    notes: list[str] = []
    repeated = False
    for folder in found:
        logs = {int(match[1]): file for file in folder.files if (match := NAMES.match(unpacked_name(file)))}
        for rank, file in sorted(logs.items(), key=lambda item: item[1]):
            rows, note = _read(file)
            notes += [f"{file.name}: {note}"] if note else []
            if rows is None:
                sources.append(Source(file, STEP_LOG_FORMAT, (rank,), "excluded", note))
                continue
            status: Literal["partial", "complete"] = "partial" if note else "complete"
            sources.append(Source(file, STEP_LOG_FORMAT, (rank,), status, note, events=len(rows)))
            repeated |= rank in tables
            tables.setdefault(rank, rows.assign(rank=rank))
    if repeated:
        notes.append("step logs of ranks whose log lies in another folder too were left out")
    size = anchor.world_size
    if size is not None and any(rank >= size for rank in tables):
        notes.append("step logs of ranks that the job does not have were left out")
        tables = {rank: table for rank, table in tables.items() if rank < size}
    whole = pd.concat(tables.values(), ignore_index=True)[list(COLUMNS)].astype(COLUMNS) if tables else None
    return Contribution(step_log=whole, sources=tuple(sources), notes=tuple(notes))


def _read(file: Path) -> tuple[pd.DataFrame | None, str]:
    import pandas as pd

    try:
        content = beginning(file, LARGEST_BYTES)
    except OSError as error:
        return None, f"it cannot be read ({error.strerror})"
    # The last line of a file that was cut is half a line; one that merely lacks its end of line is whole.
    data, cut = content.data, content.more or bool(content.damage)
    if cut:
        del data[data.rfind(b"\n") + 1 :]
    if unpacked_name(file).endswith(TABLE):
        lines, bad = _of_table(bytes(data))
    else:
        lines, bad = decode_lines(msgspec.json.Decoder(_Line), data)
    steps = [each for each in lines if 0 <= each.step < 1 << 62 and 0.0 < each.wall_ms < 1e12]
    bad += len(lines) - len(steps)
    if not steps:
        return None, "it holds no step with a number and a time"
    table = pd.DataFrame([msgspec.structs.astuple(each) for each in steps], columns=list(_Line.__struct_fields__))
    table["loss"] = pd.to_numeric(table["loss"], errors="coerce")
    notes = [f"it is larger than {LARGEST_BYTES} bytes, and what follows was left out"] if content.more else []
    notes += [f"{content.damage}, and what follows was left out"] if content.damage else []
    notes += [f"{bad} lines hold no step and were left out"] if bad else []
    return table, "; ".join(notes)


def _of_table(data: bytes) -> tuple[list[_Line], int]:
    """The steps of MindSpore's table, and how many of its lines hold none; its last line, a mean, has no number."""
    rows = csv.DictReader(data.decode("utf-8", "replace").splitlines())
    found, bad = list[_Line](), 0
    for row in rows:
        number, total = str(row.get("step_num") or ""), str(row.get("total") or "")
        if WHOLE.match(number) and WHOLE.match(total):
            found.append(_Line(int(number), int(total) / COUNTS_PER_MS))
        else:
            bad += number != MEAN
    return found, bad


STEP_LOG = RecordFormat(STEP_LOG_FORMAT, NAMES, read_step_logs)
