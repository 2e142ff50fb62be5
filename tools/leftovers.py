"""Files and folders of caches that are being written: locked by their process, so that the next one knows the dead.

A process that is killed cannot remove what it began, but the kernel releases its locks (flock).
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PARTIAL = ".part"  # ends the name of a file that is being written, behind a dot and so many random bytes in hex
RANDOM_BYTES = 6
OWN_PARTIAL = re.compile(rf"\.[0-9a-f]{{{2 * RANDOM_BYTES}}}{re.escape(PARTIAL)}$")
PARTIAL_FOLDER = ".hermes-dx-part-"  # begins the name of a folder that is being filled, or lives as long as its process
TRIES = 8  # what was just begun may be taken for a leftover until it is locked


def write_whole(target: Path, buffers: Iterable[bytes | memoryview]) -> bool:
    """Write a file so that no other process sees a part of it; False, and nothing of it stays, where that fails."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial, descriptor = _new_file(target)
    except OSError:
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            for buffer in buffers:
                file.write(buffer)
            file.flush()
            partial.replace(target)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        return False
    return True


def private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone: a cache holds what runs and users said.

    Raises OSError.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


class HeldFolder:
    """A new folder for this user that goes with ``close`` or with its process; raises OSError where none can be made.

    ``parent`` is the system's temporary folder where it is None.
    """

    def __init__(self, parent: Path | None = None) -> None:
        for _ in range(TRIES):
            self.path = Path(tempfile.mkdtemp(prefix=PARTIAL_FOLDER, dir=parent))
            try:
                lock = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            if _locked(lock, wait=True) and not self.path.exists():
                os.close(lock)
                continue
            self._remove = weakref.finalize(self, _remove_folder, self.path, lock)
            return
        raise FileNotFoundError(f"folders in {self.path.parent} are removed as soon as they are made")

    def close(self) -> None:
        """Remove the folder and what is in it; a second call does nothing."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def remove_leftovers(cache_dir: Path | None) -> None:
    """Remove what processes that were killed left in a cache, and their folders in the system's temporary folder.

    Files and folders of others that end alike stay, wherever they lie.
    """
    _remove_from(Path(tempfile.gettempdir()), files=False)
    if cache_dir is not None:
        _remove_from(cache_dir, files=True)
        with suppress(OSError):
            for entry in list(os.scandir(cache_dir)):
                if entry.is_dir(follow_symlinks=False):
                    _remove_from(Path(entry), files=True)


def _remove_from(folder: Path, *, files: bool) -> None:
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                own = entry.name.startswith(PARTIAL_FOLDER)
            else:
                own = files and entry.is_file(follow_symlinks=False) and bool(OWN_PARTIAL.search(entry.name))
            if own:
                _remove_if_free(Path(entry))


def _remove_if_free(path: Path) -> None:
    """Remove a file or folder of this user's that no process holds; where locks do not work it stays."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid() and _locked(lock, wait=False):
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    finally:
        os.close(lock)


def _new_file(target: Path) -> tuple[Path, int]:
    """A locked file next to the target that no link can stand for."""
    for _ in range(TRIES):
        partial = target.with_name(f"{target.name}.{os.urandom(RANDOM_BYTES).hex()}{PARTIAL}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        _locked(descriptor, wait=True)
        if os.fstat(descriptor).st_nlink:
            return partial, descriptor
        os.close(descriptor)
    raise FileNotFoundError(f"files in {target.parent} are removed as soon as they are made")


def _locked(descriptor: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process holds it, or the file system has no locks
        return False
    return True


def _remove_folder(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
