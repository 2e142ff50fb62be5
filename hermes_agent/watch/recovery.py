"""Brings what a killed process left in its ring into its step file, and gives the shared memory back."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from hermes_agent.monitor.flush import STEPS
from hermes_agent.monitor.layout import PREAMBLE, RECORD, SEQUENCE, STEPS_MAGIC
from hermes_agent.monitor.places import records_folder
from hermes_agent.monitor.ring_reader import RingReader


def is_abandoned(ring: RingReader) -> bool:
    """Whether the process that wrote the ring is gone; to be asked of rings that are silent or closed only."""
    return not psutil.pid_exists(int(ring.description["pid"]))


def recover(ring: RingReader, run_folder: Path) -> int:
    """Appends the records that the file lacks, removes the ring, and says how many they were.

    Without the step file the ring is left alone: it is all that there is.
    """
    file = records_folder(run_folder) / f"{ring.path.stem}{STEPS}"
    if not file.is_file() or file.is_symlink():
        return 0
    handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
    try:
        begin = _begin(handle)
        if begin is None:
            return 0
        whole = (os.fstat(handle).st_size - begin) // RECORD.size
        end = begin + whole * RECORD.size
        last = SEQUENCE.unpack(os.pread(handle, SEQUENCE.size, end - RECORD.size))[0] if whole else -1
        missing = [row for row in ring.new() if row.sequence > last]
        os.ftruncate(handle, end)  # the process may have been killed in the middle of a record
        os.pwrite(handle, b"".join(RECORD.pack(*row) for row in missing), end)
    finally:
        os.close(handle)
    ring.path.unlink(missing_ok=True)
    return len(missing)


def _begin(handle: int) -> int | None:
    """Where the records of a step file begin; None when it is none."""
    preamble = os.pread(handle, PREAMBLE.size, 0)
    if len(preamble) < PREAMBLE.size:
        return None
    magic, length = PREAMBLE.unpack(preamble)
    return PREAMBLE.size + length if magic == STEPS_MAGIC else None
