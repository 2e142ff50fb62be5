"""Recognises an export by its tables, apart from pandas and numpy: folders are listed often."""

from __future__ import annotations

from pathlib import Path

from tools.errors import InputError
from tools.sources.decompress import PACKED, beginning
from tools.sources.sqlite_file import MAGIC, Database, open_database

STRINGS = "StringIds"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
RANGES = "NVTX_EVENTS"
EXPORTED = ("META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME", RANGES, CALLS, KERNELS)


def holds_export(path: Path) -> bool:
    """Whether a file is an export; of a compressed one only whether it is SQLite."""
    try:
        if path.name.endswith(PACKED):
            return bytes(beginning(path, len(MAGIC)).data) == MAGIC
        with open_database(path) as database:
            return is_export(database)
    except (OSError, InputError):
        return False


def is_export(database: Database) -> bool:
    """Whether the tables are those of an export."""
    return STRINGS in database.columns and any(table in database.columns for table in EXPORTED)
