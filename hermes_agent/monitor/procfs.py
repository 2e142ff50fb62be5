"""The kernel's small text files: CPU quota, threads and children of the process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import clock_gettime_ns

# A file that is missing or forbidden reads as nothing.


LARGEST_BYTES = 1 << 16
MOST_OPEN = 32
CONTROL_GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
Read = Callable[[str], str]
Sample = dict[str, int | float]


def read_text(path: Path | str) -> str:
    """The file's text, at most 64 KiB of it, "" when it cannot be read."""
    try:
        with Path(path).open("rb", buffering=0) as file:
            return file.read(LARGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


class OpenFiles:
    """Reads the same few files again and again; they stay open, since opening takes longer than reading.

    The training may close every handle of the process (``os.closerange``), and a file of its own may get the number:
    a handle is used and closed only while it is still that of the file that was opened.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, tuple[int, int] | None]] = {}  # path -> handle, identity of its file

    def read(self, path: str) -> str:
        """Return the file's text, as ``read_text``."""
        if path in self._open:
            handle, file = self._open[path]
            with suppress(OSError):  # of a control group that was removed, and perhaps made again
                if file is not None and _identity(handle) == file:
                    return _text(handle)
            self._close(path)
        if len(self._open) >= MOST_OPEN:
            return read_text(path)
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._open[path] = (handle, _identity(handle))
            return _text(handle)
        if path in self._open:
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
    with suppress(OSError):
        status = os.fstat(handle)
        return status.st_dev, status.st_ino
    return None


def _text(handle: int) -> str:
    return os.pread(handle, LARGEST_BYTES, 0).decode("utf-8", "replace")


def whole_number(text: str) -> int | None:
    """Return the number that the text is, else None."""
    with suppress(ValueError):
        return int(text)
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
        quotas = [quota for group in self._groups if (quota := self._quota_cores(group)) is not None]
        sample: Sample = {"quota_cores": min(quotas)} if quotas else {}
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
    """Return one sample of ``GroupWatch``."""
    return GroupWatch(cgroups, own).sample()


def _cpu_groups(cgroups: Path, membership: str) -> list[Path]:
    """The folders of the process's CPU control group and those above; a container may have the root alone."""
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


MOST_CHILDREN = 64
MOST_THREADS = 512
AT_ONCE = 64  # threads whose waiting is read in one sample, in turn where there are more
OWN_THREADS = "hermes-dx-"


def process_cpu_us(pid: int) -> int:
    """CPU time of a live process, all threads; raises OSError when it is gone. As clock_getcpuclockid(3) does it."""
    return clock_gettime_ns((~pid << 3) | 2) // 1000


def thread_cpu_us(tid: int) -> int:
    """CPU time of a live thread of this process; raises OSError when it is gone."""
    return clock_gettime_ns((~tid << 3) | 6) // 1000


class GrowingSum:
    """A sum over counters that come and go: the last value of one that is gone still counts."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._before: set[int] = set()
        self._gone = 0

    def begin(self, existing: set[int]) -> None:
        """Leave out the values that these have when first seen, perhaps much later."""
        self._before = set(existing)

    def update(self, seen: Mapping[int, int], alive: set[int]) -> int:
        """Take values read from some of those alive; return the sum over all, also over those that are gone."""
        self._before &= alive
        for key in [key for key in self._last if key not in alive]:
            self._gone += self._last.pop(key)
        for key, value in seen.items():
            if value < self._last.get(key, 0):  # the number was given to another one
                self._gone += self._last[key]
            if key in self._before:
                self._before.remove(key)
                self._gone -= value
            self._last[key] = value
        return self._gone + sum(self._last.values())


class ThreadWatch:
    """The threads of this process; ``training`` is the native id of the one that trains."""

    def __init__(self, training: int, process: Path = Path("/proc/self")) -> None:
        self._training, self._tasks = training, process / "task"
        self._delay, self._python_cpu = GrowingSum(), GrowingSum()
        self._turn = 0

    def sample(self) -> Sample:
        """The training thread, all threads' waiting for a core, and the other Python threads."""
        delay_us = self._delay_us(self._training)
        sample: Sample = {} if delay_us is None else {"training_run_delay_us": delay_us}
        with suppress(OSError):
            sample["training_cpu_us"] = thread_cpu_us(self._training)
        return sample | self._run_delay(delay_us) | self._python_threads()

    def _run_delay(self, training_us: int | None) -> Sample:
        try:
            alive = sorted(int(name) for name in os.listdir(self._tasks) if name.isdigit())[:MOST_THREADS]  # noqa: PTH208
        except OSError:
            return {}
        begin = self._turn % max(len(alive), 1)
        looked_at = (alive[begin:] + alive[:begin])[:AT_ONCE]
        if not self._turn:
            self._delay.begin(set(alive) - set(looked_at))
        self._turn = begin + len(looked_at)
        known = {} if training_us is None else {self._training: training_us}
        seen = known | {tid: us for tid in looked_at if tid not in known and (us := self._delay_us(tid)) is not None}
        return {"run_delay_us": self._delay.update(seen, set(alive))} if seen else {}

    def _delay_us(self, tid: int) -> int | None:
        words = read_text(f"{self._tasks}/{tid}/schedstat").split()
        delay_ns = whole_number(words[1]) if len(words) == 3 else None
        return None if delay_ns is None else delay_ns // 1000

    def _python_threads(self) -> Sample:
        others = [each.native_id for each in threading.enumerate() if not each.name.startswith(OWN_THREADS)]
        tids = [tid for tid in others if tid is not None and tid != self._training][:MOST_THREADS]
        seen: dict[int, int] = {}
        for tid in tids:
            with suppress(OSError):
                seen[tid] = thread_cpu_us(tid)
        return {"python_threads": len(others), "python_threads_cpu_us": self._python_cpu.update(seen, set(tids))}


class ChildWatch:
    """The live child processes: a loader's workers above all."""

    def __init__(self, process: Path = Path("/proc/self")) -> None:
        self._tasks, self._cpu, self._read = process / "task", GrowingSum(), GrowingSum()

    def sample(self) -> Sample:
        """Their number, their CPU, what they read from storage, and the fewest cores that any of them may use."""
        pids = self._pids()[:MOST_CHILDREN]
        cpu_us: dict[int, int] = {}
        read_bytes: dict[int, int] = {}
        cores: list[int] = []
        for pid in pids:
            with suppress(OSError):
                cpu_us[pid] = process_cpu_us(pid)
                cores.append(len(os.sched_getaffinity(pid)))
            counted = fields_of(read_text(f"/proc/{pid}/io"), ":")
            if "read_bytes" in counted:
                read_bytes[pid] = counted["read_bytes"]
        sample: Sample = {"children": len(cpu_us), "children_cpu_us": self._cpu.update(cpu_us, set(pids))}
        sample["children_read_bytes"] = self._read.update(read_bytes, set(pids))
        if cores:
            sample["children_allowed_cores"] = min(cores)
        return sample

    def _pids(self) -> list[int]:
        """Children of the main thread, as the kernel lists them, and those of multiprocessing, of any thread."""
        listed = read_text(f"{self._tasks}/{os.getpid()}/children").split()
        started = tuple(getattr(sys.modules.get("multiprocessing.process"), "_children", ()))
        known = {each.pid for each in started if isinstance(each.pid, int)}
        return sorted(known | {int(word) for word in listed if word.isdigit()})
