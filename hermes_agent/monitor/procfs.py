"""The kernel's small text files, and the CPU quota of the process's control groups (version 1 and 2) in them.

A file that is missing or forbidden reads as nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LARGEST_BYTES = 1 << 16
MOST_OPEN = 32
CONTROL_GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
Read = Callable[[str], str]
Sample = dict[str, int | float]


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
        self._open: dict[str, tuple[int, tuple[int, int] | None]] = {}  # path -> handle, identity of its file

    def read(self, path: str) -> str:
        """As ``read_text``."""
        if path in self._open:
            handle, file = self._open[path]
            with suppress(OSError):  # of a control group that was removed, and perhaps made again
                if file is not None and _identity(handle) == file:
                    return _text(handle)
            self._close(path)
        if len(self._open) >= MOST_OPEN:
            return read_text(path)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        self._open[path] = (handle, _identity(handle))
        try:
            return _text(handle)
        except OSError:
            self._close(path)
            return ""

    def _close(self, path: str) -> None:
        """Close a file, unless its number is another's by now."""
        handle, file = self._open.pop(path)
        if file is not None and _identity(handle) == file:
            os.close(handle)

    def close(self) -> None:
        """Close all of them."""
        for path in tuple(self._open):
            self._close(path)


def _identity(handle: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(handle)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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


class GroupWatch:
    """The process's control groups, looked up again when the process was moved to another one."""

    def __init__(self, cgroups: Path = CONTROL_GROUPS, own: Path = OWN_GROUP, read: Read = read_text) -> None:
        self._cgroups, self._own, self._read = cgroups, str(own), read
        self._membership: str | None = None
        self._groups: list[Path] = []

    def sample(self) -> Sample:
        """``quota_cores``: the smallest quota of the own group and those above; throttling: all of theirs together."""
        membership = self._read(self._own)
        if membership != self._membership:
            self._membership, self._groups = membership, _cpu_groups(self._cgroups, membership)
        sample: Sample = {}
        quotas = [quota for group in self._groups if (quota := self._quota_cores(group)) is not None]
        if quotas:
            sample["quota_cores"] = min(quotas)
        for group in self._groups:
            fields = fields_of(self._read(f"{group}/cpu.stat"))
            if "nr_throttled" in fields:
                held_us = fields.get("throttled_usec", fields.get("throttled_time", 0) // 1000)
                sample["throttled_periods"] = sample.get("throttled_periods", 0) + fields["nr_throttled"]
                sample["throttled_us"] = sample.get("throttled_us", 0) + held_us
        return sample

    def _quota_cores(self, group: Path) -> float | None:
        """None where the group has none."""
        words = self._read(f"{group}/cpu.max").split()
        if not words:
            words = [self._read(f"{group}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        quota_us, period_us = (whole_number(word) for word in [*words, "", ""][:2])
        if quota_us is None or not period_us or quota_us <= 0:
            return None
        return quota_us / period_us


def cgroup_sample(cgroups: Path = CONTROL_GROUPS, own: Path = OWN_GROUP) -> Sample:
    """One sample of ``GroupWatch``."""
    return GroupWatch(cgroups, own).sample()


def _cpu_groups(cgroups: Path, membership: str) -> list[Path]:
    """The folders of the process's CPU control group and of those above it, the own one first.

    Inside a container the own group is often mounted as the root; then only the root is there.
    """
    for line in membership.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        inside = [part for part in path.split("/") if part not in ("", ".", "..")]
        for base in (cgroups / name for name in (("cpu", controllers) if controllers else (".", "unified"))):
            folders = [base.joinpath(*inside[:depth]) for depth in range(len(inside), -1, -1)]
            if found := [folder for folder in folders if (folder / "cpu.stat").exists()]:
                return found
    return []
