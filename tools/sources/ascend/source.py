"""The declarations of what Ascend's profilers write: databases of a timeline, and folders of tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.errors import InputError
from tools.run.kinds import ASCEND_FORMAT
from tools.sources.decompress import Readable
from tools.sources.formats import Anchor, Contribution, FolderFiles, Heard, RecordFormat, TraceFormat
from tools.sources.options import LoadOptions
from tools.sources.sqlite_file import MAGIC

if TYPE_CHECKING:
    from tools.sources.trace_file import TraceFile


def _recognises(start: bytes) -> bool:
    return start.startswith(MAGIC)


def _holds(path: Path) -> bool:
    from tools.sources.ascend.recognise import holds_timeline

    return holds_timeline(path)


def _read(path: Readable, digest: str, options: LoadOptions, heard: Heard | None) -> TraceFile:
    from tools.sources.ascend.database import read_database

    if not isinstance(path, Path):
        raise InputError(f"{path.name}: a database is read from a file, not from a stream; download it first")
    return read_database(path, digest, options)


def _is_table(path: Path) -> bool:
    from tools.sources.ascend.recognise import is_table

    return is_table(path)


def _read_tables(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    from tools.sources.ascend.read_tables import read_ascend

    return read_ascend(found, anchor)


# Only where the content is out of reach; elsewhere the content decides.
TABLE_NAMES = re.compile(r"(?:cluster_)?(?:step_trace_time|kernel_details|communication(?:_matrix)?)\.(?:csv|json)\Z")

ASCEND_DATABASE = TraceFormat("ascend database", re.compile(r".+\.db\Z"), _recognises, _read, _holds)
ASCEND_TABLES = RecordFormat(ASCEND_FORMAT, TABLE_NAMES, _read_tables, recognises=_is_table, nested=True)
