"""CPU time and waiting for a core of the process's threads and children.

Sums only grow: what a thread or child had used when it was last seen still counts after it has ended.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import clock_gettime_ns

from hermes_agent.monitor.procfs import fields_of, read_text, whole_number

MOST_CHILDREN = 64
MOST_THREADS = 512
AT_ONCE = 64  # threads whose waiting is read in one sample, in turn where there are more
OWN_THREADS = "hermes-dx-"
Sample = dict[str, int | float]


def process_cpu_us(pid: int) -> int:
    """CPU time of a live process, all threads; raises OSError when it is gone. As clock_getcpuclockid(3) does it."""
    return clock_gettime_ns((~pid << 3) | 2) // 1000


def thread_cpu_us(tid: int) -> int:
    """CPU time of a live thread of this process; raises OSError when it is gone."""
    return clock_gettime_ns((~tid << 3) | 6) // 1000


class GrowingSum:
    """Adds counters that come and go."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._before: set[int] = set()
        self._gone = 0

    def begin(self, existing: set[int]) -> None:
        """Do not count what these have when they are first seen, perhaps much later: it was before the sum."""
        self._before = set(existing)

    def update(self, seen: Mapping[int, int], alive: set[int]) -> int:
        """Take in what was read of some of those alive; the sum of all, also of those that are no longer."""
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
        return self._training_thread(delay_us) | self._run_delay(delay_us) | self._python_threads()

    def _training_thread(self, delay_us: int | None) -> Sample:
        sample: Sample = {}
        with suppress(OSError):
            sample["training_cpu_us"] = thread_cpu_us(self._training)
        if delay_us is not None:
            sample["training_run_delay_us"] = delay_us
        return sample

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
