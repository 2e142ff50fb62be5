"""Ctrl+C in a command: the process leaves at once, whatever its threads are reading."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

_temporary: set[Path] = set()


def leave_at_once() -> None:
    """From here on an interrupt ends the process with exit code 130.

    Raising ``KeyboardInterrupt`` would not do: the interpreter waits for threads that read a run, which may take long.
    Processes that read for this one end when it does, and files are written whole or not at all.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _leave)


def as_usual() -> None:
    """From here on an interrupt is an exception again, for a screen that has to be put back in order."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def removed_at_end(folder: Path) -> None:
    """The folder goes when the process ends, by an interrupt as well."""
    if not _temporary:
        atexit.unregister(_remove)
        atexit.register(_remove)
    _temporary.add(folder)


def not_removed(folder: Path) -> None:
    """The folder is gone already, or stays."""
    _temporary.discard(folder)


def _remove() -> None:
    for folder in tuple(_temporary):
        shutil.rmtree(folder, ignore_errors=True)


def _leave(number: int, frame: FrameType | None) -> None:
    try:
        line = "\r\x1b[K" if os.isatty(2) else ""
        os.write(2, f"{line}hermes-dx: interrupted\n".encode())  # not through sys.stderr, which may be in mid-write
        sys.stdout.flush()
    except (OSError, RuntimeError, ValueError):
        pass  # a closed stream, or one that was being written
    _remove()
    os._exit(130)
