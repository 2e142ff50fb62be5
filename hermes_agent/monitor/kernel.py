"""Reads the kernel's small text files; one that is missing or forbidden reads as nothing."""

from __future__ import annotations

import os
from pathlib import Path

LARGEST_BYTES = 1 << 16


def read_text(path: Path | str) -> str:
    """The file's text, at most 64 KiB of it, "" when it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(handle, LARGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)


def whole_number(text: str) -> int | None:
    """The number that the text is, None when it is none."""
    try:
        return int(text)
    except ValueError:
        return None


def fields_of(text: str, separator: str | None = None) -> dict[str, int]:
    """Name and number of each line ``name number``; other lines are left out."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        parts = line.split(separator)
        number = whole_number(parts[1]) if len(parts) == 2 else None
        if number is not None:
            found[parts[0].strip()] = number
    return found
