"""What is made for a launch is named after the process that made it, so that a killed maker's can be removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "hermes-lab"


def mark(pid: int | None = None) -> str:
    """How names of what a process (this one without ``pid``) made begin: hermes-lab-NAMESPACE-PID-START-.

    A number of a process means something in its namespace only, and is given to another one after a while.
    """
    own = os.getpid() if pid is None else pid
    return f"{NAME}-{_namespace():x}-{own}-{_start_ticks(own) or 0:x}-"


def is_abandoned(name: str) -> bool:
    """Whether ``name`` is of a process of this container that is gone; False where that is unknown."""
    parts = name.removeprefix(f"{NAME}-").split("-")
    if len(parts) < 4 or parts[0] != f"{_namespace():x}" or not parts[1].isdecimal():
        return False
    started = _start_ticks(int(parts[1]))
    return started is None or f"{started:x}" != parts[2]


def _namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_ticks(pid: int) -> int | None:
    """When the process was started, in ticks since boot; None when it is gone."""
    try:
        return int(
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
        )
    except (FileNotFoundError, ProcessLookupError):
        return None


@contextmanager
def own_folder() -> Iterator[Path]:
    """A short-named temporary folder for the time of the context (a socket's path may have 107 bytes)."""
    for folder in Path(tempfile.gettempdir()).glob(f"{NAME}-*"):
        if is_abandoned(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=mark()) as own:
        yield Path(own)
