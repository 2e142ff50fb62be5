"""The ring of a process that was killed: where it is, and the steps in it.

A ring holds clocks and running sums in ns, sixteen 8-byte numbers per step (``docs/monitor.md``); a step is the
difference of a row and the one before it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MAGIC = b"HDXRING2"
SHARED = Path("/dev/shm")
WORDS = 16
WRITTEN_AT = 8704
UNIX_AT_ZERO_AT = 8728
BEGIN_AT = 8960
RECORDS_AT = 12288
SEQUENCE, STEP, CLOCK, CPU, SAMPLES, DATA, WAITING, GC, GC_RUNS, FETCHES, READY, GC_LONGEST, DEPTHS, FLAGS = range(14)
SUMS = {"wall_us": CLOCK, "thread_cpu_us": CPU, "data_wait_us": DATA, "waiting_us": WAITING, "gc_us": GC}
GROWING = [CLOCK, DATA, WAITING, GC, GC_RUNS, FETCHES]  # the CPU clock is of the thread that called
COUNTS = {"gc_runs": GC_RUNS, "fetches": FETCHES}
QUEUES = ("in_flight", "result_queue", "pinned_queue")
NOT_COUNTED = ("voluntary_switches", "involuntary_switches", "major_faults")
UNKNOWN_US = 0xFFFFFFFF
LARGEST_US = 0xFFFFFFFE
Words = NDArray[np.int64]


def own_ring(steps: Path) -> Path | None:
    """The ring of a step file, in this user's shared memory or beside the file; None when there is none."""
    resolved = steps.resolve()
    digest = hashlib.sha256(str(resolved.parent.parent).encode()).hexdigest()[:16]
    name = f"{steps.stem}.ring"
    places = (SHARED / f"hermes-dx-{os.getuid()}" / digest / name, resolved.parent / name)
    return next((path for path in places if _is_own_file(path)), None)


def ring_rows(data: bytes | bytearray, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """The steps in a ring as records of a step file, in order; what was being overwritten is left out."""
    count = max(len(data) - RECORDS_AT, 0) // (8 * WORDS)
    if not count:
        return np.zeros(0, dtype)
    slots = np.frombuffer(data, "<i8", count * WORDS, RECORDS_AT).reshape(count, WORDS)
    sequence = slots[:, SEQUENCE]
    written = int(np.frombuffer(data, "<i8", 1, WRITTEN_AT)[0])
    # A slot that was never used is all zero; the sequence number of a used one fits its place. A step is counted as
    # written when all of it is in its slot: the one after it may be there by half.
    used = (slots[:, CLOCK] > 0) & (sequence >= 0) & (sequence < written) & (sequence % count == np.arange(count))
    begin = np.frombuffer(data, "<i8", WORDS, BEGIN_AT).reshape(1, WORDS)
    rows = np.concatenate([begin, slots[used]])
    rows = rows[np.argsort(rows[:, SEQUENCE], kind="stable")]
    follows = (np.diff(rows[:, SEQUENCE]) == 1) & (np.diff(rows[:, GROWING], axis=0) >= 0).all(axis=1)
    unix_at_zero_ns = int(np.frombuffer(data, "<i8", 1, UNIX_AT_ZERO_AT)[0])
    return _steps(rows[:-1][follows], rows[1:][follows], unix_at_zero_ns, dtype)


def _steps(before: Words, now: Words, unix_at_zero_ns: int, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    steps = np.zeros(len(now), dtype)
    steps["sequence"], steps["step"] = now[:, SEQUENCE], now[:, STEP]
    steps["end_unix_ns"] = now[:, CLOCK] + unix_at_zero_ns
    for name, at in SUMS.items():
        steps[name] = _bounded((now[:, at] - before[:, at]) // 1000)
    steps["wall_us"] = np.maximum(steps["wall_us"], 1)
    for name, at in COUNTS.items():
        steps[name] = _bounded(now[:, at] - before[:, at])
    own_us = _bounded((now[:, READY] - before[:, CLOCK]) // 1000)
    steps["own_us"] = np.where(now[:, READY] > before[:, CLOCK], own_us, UNKNOWN_US)
    steps["gc_longest_us"] = _bounded(now[:, GC_LONGEST] // 1000)
    steps["samples"], steps["flags"] = _bounded(now[:, SAMPLES]), _bounded(now[:, FLAGS])
    depths = np.where(now[:, FETCHES] > before[:, FETCHES], now[:, DEPTHS], 0)
    for place, name in enumerate(QUEUES):
        steps[name] = (depths >> 16 * place & 0xFFFF) - 1
    for name in set(NOT_COUNTED) & set(dtype.names or ()):
        steps[name] = UNKNOWN_US
    return steps


def _bounded(values: Words) -> Words:
    return values.clip(0, LARGEST_US)


def _is_own_file(path: Path) -> bool:
    try:
        kind = path.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(kind.st_mode) and kind.st_uid == os.getuid()
