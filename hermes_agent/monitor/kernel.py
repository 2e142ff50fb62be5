"""Reads the kernel's small text files; one that is missing or forbidden reads as nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

LARGEST_BYTES = 1 << 16
MOST_OPEN = 32
Read = Callable[[str], str]


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


class OpenFiles:
    """Reads the same few files again and again; they stay open, since opening takes longer than reading."""

    def __init__(self) -> None:
        self._handles: dict[str, int] = {}

    def read(self, path: str) -> str:
        """As ``read_text``."""
        handle = self._handles.get(path)
        if handle is None:
            return self._first(path)
        try:
            return _text(handle)
        except OSError:  # of a control group that was removed, perhaps made anew
            os.close(self._handles.pop(path))
            return self._first(path)

    def _first(self, path: str) -> str:
        if len(self._handles) >= MOST_OPEN:
            return read_text(path)
        try:
            handle = self._handles[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return _text(handle)
        except OSError:
            return ""

    def close(self) -> None:
        """Closes all of them."""
        while self._handles:
            os.close(self._handles.popitem()[1])


def _text(handle: int) -> str:
    return os.pread(handle, LARGEST_BYTES, 0).decode("utf-8", "replace")


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
