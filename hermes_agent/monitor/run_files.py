"""Files in a run folder, into which others may put links, pipes and folders: none of them is followed or waited for.

The run folder itself is where the user says, links included; below it every file is opened by its name in a folder
that was opened first and is no link. What is written is a new file, or a plain file with a single name. Standard
library only.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from hermes_agent.monitor.format import CAPTURES

MOST_ENTRIES = 1 << 18  # looked at in one folder: 10,000 ranks have three for each of their starts
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe does not block the one who opens it
NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PRIVATE, SHARED = 0o600, 0o666  # of records, and of what others may be meant to read, as far as the umask allows
CAPTURE = re.compile(re.escape(CAPTURES), re.DOTALL)


@contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """The handle of a folder that is no link; raises OSError."""
    try:
        handle = os.open(path, FOLDER)
    except NotADirectoryError as error:
        raise NotADirectoryError(error.errno, "is a link or no folder", str(path)) from None
    try:
        yield handle
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder where it is missing; raises OSError where a link or a file has its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir()
    with opened_folder(path):
        pass


def create(path: Path, flags: int = os.O_WRONLY | os.O_APPEND) -> int:
    """The handle of a new file in a folder that is there; raises OSError."""
    with opened_folder(path.parent) as folder:
        return os.open(path.name, flags | NEW, PRIVATE, dir_fd=folder)


def open_plain(path: Path, flags: int, make: bool = False) -> int:
    """The handle of a plain file that has no other name, made where it may be missing; raises OSError.

    A second name of the file may lie anywhere, so that what is written to it would be written there.
    """
    with opened_folder(path.parent) as folder:
        with suppress(FileNotFoundError):  # before it is opened: opening a device may do something
            _check_plain(os.stat(path.name, dir_fd=folder, follow_symlinks=False), path)
        handle = os.open(path.name, flags | PLAIN | (os.O_CREAT if make else 0), PRIVATE, dir_fd=folder)
    try:
        _check_plain(os.fstat(handle), path)
    except OSError:
        os.close(handle)
        raise
    return handle


def _check_plain(about: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(about.st_mode):
        what = "is a link" if stat.S_ISLNK(about.st_mode) else "is no plain file"
        raise OSError(errno.EINVAL, what, str(path))
    if about.st_nlink > 1:
        raise OSError(errno.EMLINK, "has a second name, which may lie anywhere", str(path))


def write_all(handle: int, data: bytes) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def append(path: Path, line: bytes, most_bytes: int) -> bool:
    """Append a line to a plain file, on a line of its own; False where the file would be larger than that."""
    handle = open_plain(path, os.O_RDWR | os.O_APPEND, make=True)
    try:
        size = os.fstat(handle).st_size
        if size + len(line) + 2 > most_bytes:
            return False
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # a writer was killed within a line
        write_all(handle, b"\n" * torn + line + b"\n")
        return True
    finally:
        os.close(handle)


def replace(path: Path, pieces: Iterable[bytes]) -> int:
    """Write a file whole or not at all, in place of whatever has its name, and return its size; raises OSError."""
    part, size = f".{path.name}.{os.getpid()}.part", 0
    with opened_folder(path.parent) as folder:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)  # of an earlier process of that number; of a link the link
        handle = os.open(part, os.O_WRONLY | NEW, SHARED, dir_fd=folder)
        try:
            try:
                for piece in pieces:
                    write_all(handle, piece)
                    size += len(piece)
            finally:
                os.close(handle)
            os.replace(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
    return size


def remove(path: Path) -> None:
    """Remove a file, of a link the link; nothing where it is gone."""
    with suppress(FileNotFoundError), opened_folder(path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)


@dataclass(frozen=True)
class Listing:
    """The names of plain files, of folders, and of links, pipes and devices; whether there is more in the folder."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    more: bool = False


def listing(folder: Path, names: re.Pattern[str]) -> Listing:
    """What has such a name in a folder, in order; nothing where there is no such folder.

    Raises OSError where it cannot be listed.
    """
    try:
        with opened_folder(folder) as handle, os.scandir(handle) as found:
            fitting = [each for each in islice(found, MOST_ENTRIES) if names.match(each.name)]
            files = {each.name for each in fitting if each.is_file(follow_symlinks=False)}
            folders = {each.name for each in fitting if each.is_dir(follow_symlinks=False)}
            others = {each.name for each in fitting} - files - folders
            more = next(found, None) is not None
            return Listing(tuple(sorted(files)), tuple(sorted(folders)), tuple(sorted(others)), more)
    except FileNotFoundError:
        return Listing()


def capture_names(run_folder: Path) -> tuple[str, ...]:
    """The names of the captures' folders in the run folder; raises OSError where it cannot be listed."""
    return listing(run_folder.resolve(), CAPTURE).folders


def captured_bytes(run_folder: Path) -> int:
    """Size of all captures in the run folder; what cannot be looked at counts nothing."""
    size = 0
    with suppress(OSError):
        for name in capture_names(run_folder):
            with suppress(OSError), opened_folder(run_folder / name) as folder, os.scandir(folder) as found:
                for each in islice(found, MOST_ENTRIES):
                    size += each.stat(follow_symlinks=False).st_size if each.is_file(follow_symlinks=False) else 0
    return size
