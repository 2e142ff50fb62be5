"""Where a run's monitor files lie."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
RECORDS = "monitor"
CAPTURES = "capture-"


def records_folder(run_folder: Path) -> Path:
    """The folder of the flushed records."""
    return run_folder / RECORDS


def file_name_of(host: str) -> str:
    """The machine's name as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", host)[:100]


def ring_folders(run_folder: Path) -> tuple[Path, ...]:
    """Where rings of that run may be on this machine, the best place first."""
    digest = hashlib.sha256(str(run_folder.resolve()).encode()).hexdigest()[:16]
    shared = SHARED_MEMORY / f"hermes-dx-{os.getuid()}" / digest
    return shared, records_folder(run_folder)


def open_ring_folder(run_folder: Path, bytes_needed: int) -> Path:
    """A folder of our own for the ring: in shared memory where there is room, else beside the records."""
    shared, beside = ring_folders(run_folder)
    if _usable(shared, bytes_needed):
        return shared
    beside.mkdir(parents=True, exist_ok=True)
    return beside


def capture_folder(run_folder: Path, request: int) -> Path:
    """The folder of the traces of one capture request."""
    return run_folder / f"{CAPTURES}{request:04d}"


def captured_bytes(run_folder: Path) -> int:
    """Size of all captures in the run folder."""
    sizes = (file.stat().st_size for folder in run_folder.glob(f"{CAPTURES}*") for file in folder.glob("*"))
    return sum(sizes)


def _usable(folder: Path, bytes_needed: int) -> bool:
    try:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        about = folder.parent.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
            return False
        folder.mkdir(mode=0o700, exist_ok=True)
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize > 4 * bytes_needed
