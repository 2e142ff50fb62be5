"""Recognises a dump of PyTorch's flight recorder by its content, apart from pandas: folders are listed often."""

from __future__ import annotations

from pathlib import Path

from tools.sources.plain_files import open_plain

LOOKED_AT_BYTES = 1 << 16  # stack frames of the first entry may come before the other members
PICKLE = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
MARKS = ((b"pg_config", b"pg_status"), (b"collective_seq_id", b"profiling_name"), (b"pg_config", b"entries"))


def is_dump(path: Path) -> bool:
    """Whether the file begins as a dump does, pickled or as JSON; False as well where it cannot be read."""
    try:
        with open_plain(path) as file:
            start = file.read(2)
            if not start.startswith((*PICKLE, b"{")):
                return False
            start += file.read(LOOKED_AT_BYTES)
    except OSError:
        return False
    return any(all(mark in start for mark in marks) for marks in MARKS)
