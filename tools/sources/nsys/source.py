"""The declaration of Nsight Systems exports: SQLite files that ``nsys export --type sqlite`` writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tools.sources.decompress import Readable
from tools.sources.formats import Heard, TraceFormat
from tools.sources.options import LoadOptions
from tools.sources.sqlite_file import MAGIC

if TYPE_CHECKING:
    from tools.sources.trace_file import TraceFile


def _recognises(start: bytes) -> bool:
    return start.startswith(MAGIC)


def _holds(path: Path) -> bool:
    from tools.sources.nsys.recognise import holds_export

    return holds_export(path)


def _read(path: Readable, digest: str, options: LoadOptions, heard: Heard | None) -> TraceFile:
    from tools.sources.nsys.reader import read_export

    return read_export(path, digest, options, heard)


NSYS = TraceFormat("nsys", re.compile(r".+\.(?:sqlite3?|db)\Z"), _recognises, _read, _holds)
