"""Reads the kernel's small text files; one that is missing or forbidden reads as nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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


ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
Sample = dict[str, int | float]


def cgroup_sample(cgroups: Path = ROOT, own: Path = OWN) -> Sample:
    """One sample of ``GroupWatch``."""
    return GroupWatch(cgroups, own).sample()


class GroupWatch:
    """The process's control groups, looked for again when the process was moved to another one."""

    def __init__(self, cgroups: Path = ROOT, own: Path = OWN, read: Read = read_text) -> None:
        self._cgroups, self._own, self._read = cgroups, str(own), read
        self._told: str | None = None
        self._groups: list[str] = []

    def sample(self) -> Sample:
        """``quota_cores``: the smallest quota of the own group and those above; throttling: all of theirs together."""
        told = self._read(self._own)
        if told != self._told:
            self._told, self._groups = told, [str(group) for group in cpu_groups(self._cgroups, told)]
        return _sample(self._groups, self._read)


def _sample(groups: Sequence[str], read: Read) -> Sample:
    sample: Sample = {}
    quotas = [quota for group in groups if (quota := _quota_cores(group, read)) is not None]
    if quotas:
        sample["quota_cores"] = min(quotas)
    for group in groups:
        fields = fields_of(read(f"{group}/cpu.stat"))
        if "nr_throttled" not in fields:
            continue
        sample["throttled_periods"] = sample.get("throttled_periods", 0) + fields["nr_throttled"]
        held_us = fields.get("throttled_usec", fields.get("throttled_time", 0) // 1000)
        sample["throttled_us"] = sample.get("throttled_us", 0) + held_us
    return sample


def cpu_groups(cgroups: Path, own: str) -> list[Path]:
    """The folders of the process's CPU control group and of those above it, the own one first.

    Inside a container the own group is often mounted as the root; then only the root is there.
    """
    for line in own.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        names = ("cpu", controllers) if controllers else (".", "unified")
        for base in (cgroups / name for name in names):
            if (base / "cpu.stat").exists() or (base / path.lstrip("/") / "cpu.stat").exists():
                return _chain(base, path)
    return []


def _chain(base: Path, path: str) -> list[Path]:
    inside = [part for part in path.split("/") if part not in ("", ".", "..")]
    folders = [base.joinpath(*inside[:depth]) for depth in range(len(inside), -1, -1)]
    return [folder for folder in folders if (folder / "cpu.stat").exists()]


def _quota_cores(group: str, read: Read) -> float | None:
    """None where the group has none."""
    words = read(f"{group}/cpu.max").split()
    if not words:
        words = [read(f"{group}/cpu.cfs_quota_us").strip(), read(f"{group}/cpu.cfs_period_us").strip()]
    quota_us, period_us = (whole_number(word) for word in [*words, "", ""][:2])
    if quota_us is None or not period_us or quota_us <= 0:
        return None
    return quota_us / period_us
