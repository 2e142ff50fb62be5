"""Reads the step logs of a run: one JSON object per line and step, ``{"step": 12, "wall_ms": 95.2}`` and more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pandas as pd

from tools.run.model import STEP_LOG_FORMAT, Source, SourceStatus
from tools.sources.inventory import step_logs
from tools.sources.small_files import beginning

LARGEST_BYTES = 256 << 20
COLUMNS = {
    "rank": "int64",
    "step": "int64",
    "wall_ms": "float64",
    "samples": "float64",
    "tokens": "float64",
    "loss": "float64",
}


class _Line(msgspec.Struct):
    step: int
    wall_ms: float
    samples: float | None = None
    tokens: float | None = None
    loss: float | str | None = None  # a loss that is no number may be written as "nan"


@dataclass(frozen=True)
class StepLogs:
    """The table of ``COLUMNS`` (None without any log), what was read, and what could not be."""

    table: pd.DataFrame | None
    sources: tuple[Source, ...]
    notes: tuple[str, ...]


def read_step_logs(folder: Path) -> StepLogs:
    """The logs of all ranks directly in the folder; what cannot be read is left out with a note."""
    tables: list[pd.DataFrame] = []
    sources: list[Source] = []
    notes: list[str] = []
    for rank, file in step_logs(folder).items():
        rows, note = _read(file)
        status: SourceStatus = "excluded" if rows is None else "partial" if note else "complete"
        sources.append(Source(file, STEP_LOG_FORMAT, (rank,), status, note, events=0 if rows is None else len(rows)))
        notes += [f"{file.name}: {note}"] if note else []
        if rows is not None:
            tables.append(rows.assign(rank=rank))
    whole = pd.concat(tables, ignore_index=True)[list(COLUMNS)].astype(COLUMNS) if tables else None
    return StepLogs(whole, tuple(sources), tuple(notes))


def _read(file: Path) -> tuple[pd.DataFrame | None, str]:
    try:
        content = beginning(file, LARGEST_BYTES)
    except OSError as error:
        return None, f"it cannot be read ({error.strerror})"
    # The last line of a file that was cut is half a line; one that merely lacks its end of line is whole.
    data, cut = content.data, content.more or bool(content.damage)
    if cut:
        del data[data.rfind(b"\n") + 1 :]
    lines, bad = _decoded(data)
    kept = [each for each in lines if 0 <= each.step < 1 << 62 and 0.0 < each.wall_ms < 1e12]
    bad += len(lines) - len(kept)
    if not kept:
        return None, "it holds no step with a number and a time"
    table = pd.DataFrame([msgspec.structs.astuple(each) for each in kept], columns=list(_Line.__struct_fields__))
    table["loss"] = pd.to_numeric(table["loss"], errors="coerce")
    notes = [f"it is larger than {LARGEST_BYTES} bytes, and what follows was left out"] if content.more else []
    notes += [f"{content.damage}, and what follows was left out"] if content.damage else []
    notes += [f"{bad} lines hold no step and were left out"] if bad else []
    return table, "; ".join(notes)


def _decoded(data: bytearray) -> tuple[list[_Line], int]:
    """The lines in order of the file, and how many are none."""
    decoder = msgspec.json.Decoder(_Line)
    try:
        return decoder.decode_lines(data), 0
    except (msgspec.DecodeError, UnicodeDecodeError):
        lines: list[_Line] = []
        bad = 0
    for line in filter(None, data.split(b"\n")):
        try:
            lines.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            bad += 1
    return lines, bad
