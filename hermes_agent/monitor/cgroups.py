"""The CPU quota of the process's control groups (version 1 and 2), and how often it held the process back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hermes_agent.monitor.procfs import Read, fields_of, read_text, whole_number

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
