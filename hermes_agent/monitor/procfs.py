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
    """Reads the same few files again and again; they stay open, since opening takes longer than reading.

    The training may close every handle of the process (``os.closerange``), and a file of its own may get the number:
    a handle is used and closed only while it is still that of the file that was opened.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Handle] = {}

    def read(self, path: str) -> str:
        """As ``read_text``."""
        kept = self._kept.get(path)
        if kept is None:
            return self._first(path)
        try:
            if kept.is_ours():
                return _text(kept.number)
        except OSError:  # of a control group that was removed, perhaps made anew
            kept.close()
        del self._kept[path]
        return self._first(path)

    def _first(self, path: str) -> str:
        if len(self._kept) >= MOST_OPEN:
            return read_text(path)
        try:
            kept = _Handle(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return ""
        try:
            text = _text(kept.number)
        except OSError:
            kept.close()
            return ""
        self._kept[path] = kept
        return text

    def close(self) -> None:
        """Closes all of them."""
        while self._kept:
            self._kept.popitem()[1].close()


class _Handle:
    """An open file, which the number alone does not name for ever."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _identity(number)

    def is_ours(self) -> bool:
        """Whether the number is still that file's."""
        return self._file is not None and _identity(self.number) == self._file

    def close(self) -> None:
        """Closes the file, unless the number is another's by now."""
        if self.is_ours():
            os.close(self.number)


def _identity(number: int) -> tuple[int, int] | None:
    try:
        told = os.fstat(number)
    except OSError:
        return None
    return told.st_dev, told.st_ino


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
