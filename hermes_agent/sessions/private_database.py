"""A SQLite file of this user alone: no link is followed, its size is bounded, and nothing in its schema is run."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

from tools.leftovers import private_folder

PAGE_BYTES = 4096


def private_database(path: Path, most_bytes: int, wait_s: float) -> sqlite3.Connection:
    """Open or make the file; raises OSError and sqlite3.Error where that is impossible."""
    private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    os.close(descriptor)
    if not regular:
        raise OSError("it is not a regular file")
    connection = sqlite3.connect(path, timeout=wait_s, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute(f"PRAGMA max_page_count={most_bytes // PAGE_BYTES}")
    return connection
