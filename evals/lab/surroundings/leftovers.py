"""What is made for a launch is named after the process that made it, so that a killed maker's can be removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "hermes-lab"


def is_abandoned(name: str) -> bool:
    """Whether ``name`` (hermes-lab-PID-...) belongs to a process that is gone."""
    pid = name.removeprefix(f"{NAME}-").split("-")[0]
    return pid.isdigit() and not Path("/proc", pid).exists()


@contextmanager
def own_folder() -> Iterator[Path]:
    """A short-named temporary folder for the time of the context (a socket's path may have 107 bytes)."""
    for folder in Path(tempfile.gettempdir()).glob(f"{NAME}-*"):
        if is_abandoned(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-{os.getpid()}-") as own:
        yield Path(own)
