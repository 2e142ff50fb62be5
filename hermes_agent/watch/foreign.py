"""Processes outside of the run that used the machine's cores; only their names are recorded."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

WINDOW_S = 0.3
LEAST_PCT = 20.0  # of one core
MOST_NAMED = 5


@dataclass(frozen=True)
class Foreign:
    """A process outside of the run; 100 % is one core."""

    name: str
    cpu_pct: float


def foreign_processes(own: set[int], window_s: float = WINDOW_S) -> tuple[Foreign, ...]:
    """The busiest processes over ``window_s`` seconds that are not the processes ``own``, their children or parents."""
    before = _cpu_seconds()
    begun = time.monotonic()
    time.sleep(window_s)
    after = _cpu_seconds()
    span_s = time.monotonic() - begun
    ours = _family(own | {psutil.Process().pid}, {pid: each.parent for pid, each in after.items()})
    found = [
        Foreign(now.name, 100 * (now.cpu_s - before[pid].cpu_s) / span_s)
        for pid, now in after.items()
        if pid in before and pid not in ours and now.begun == before[pid].begun
    ]
    busy = sorted((each for each in found if each.cpu_pct >= LEAST_PCT), key=lambda each: -each.cpu_pct)
    return tuple(busy[:MOST_NAMED])


@dataclass(frozen=True)
class _Seen:
    name: str
    parent: int
    cpu_s: float
    begun: float


def _cpu_seconds() -> dict[int, _Seen]:
    seen: dict[int, _Seen] = {}
    for process in psutil.process_iter(["name", "ppid", "cpu_times", "create_time"]):
        info = process.info
        if info["cpu_times"] is None:
            continue  # not ours to look at
        times = info["cpu_times"]
        name = "".join(each for each in str(info["name"] or "?") if each.isprintable())[:40]
        seen[process.pid] = _Seen(name, info["ppid"] or 0, times.user + times.system, info["create_time"] or 0.0)
    return seen


def _family(own: set[int], parents: dict[int, int]) -> set[int]:
    """The processes, all that they started, and those that started them."""
    family = set(own)
    while more := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= more
    for pid in own:
        while (pid := parents.get(pid, 0)) > 1:
            family.add(pid)
    return family
