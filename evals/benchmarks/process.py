"""Time and memory of one command as a whole: the process and everything it starts."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

INTERVAL_S = 0.05
LAST_WORDS = 2000  # characters of what a failed command wrote


class CommandError(RuntimeError):
    """A measured command failed."""


@dataclass(frozen=True)
class Cost:
    """Cost of one run of a command. Memory is the largest sum over all its processes, shared pages counted once."""

    seconds: float
    cpu_s: float  # user and system time of the process and of those that it waited for
    peak_mib: float
    output: str = ""


def cost_of(command: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Runs the command to its end; ``CommandError`` with its last words when it fails."""
    begun, cpu_s = time.perf_counter(), _children_cpu_s()
    process = subprocess.Popen(
        command, env=surroundings(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peaks = [0]
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks), daemon=True)
    watcher.start()
    output, errors = process.communicate()
    seconds = time.perf_counter() - begun
    watcher.join()
    if process.returncode:
        words = " ".join(command[:4])
        raise CommandError(f"{words} ... failed with {process.returncode}: {errors[-LAST_WORDS:]}")
    return Cost(seconds, _children_cpu_s() - cpu_s, peaks[0] / (1 << 20), output)


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a measured command: ours with compiled modules kept, as an installed program has them."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}, **environment}


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(pid: int, peaks: list[int]) -> None:
    try:
        root = psutil.Process(pid)
        while root.is_running() and root.status() != psutil.STATUS_ZOMBIE:
            peaks[0] = max(peaks[0], sum(_pss(each) for each in [root, *root.children(recursive=True)]))
            time.sleep(INTERVAL_S)
    except psutil.Error:
        return


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0
