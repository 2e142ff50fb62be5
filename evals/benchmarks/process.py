"""Time and memory of one command as a whole: the process and everything it starts."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

INTERVAL_S = 0.05


@dataclass(frozen=True)
class Cost:
    """Cost of one run of a command. Memory is the largest sum over all its processes, shared pages counted once."""

    seconds: float
    peak_mib: float
    output: str


def cost_of(command: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Runs the command to its end; ``RuntimeError`` with its last words when it fails."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peaks = [0]
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks), daemon=True)
    watcher.start()
    output, errors = process.communicate()
    seconds = time.perf_counter() - begun
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} ... failed with {process.returncode}: {errors[-2000:]}")
    return Cost(seconds, peaks[0] / (1 << 20), output)


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
