"""Files of a run folder: plain ones, in which others may have put pipes, devices and links that lead elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from tools.errors import InputError


def open_plain(path: Path) -> BinaryIO:
    """A plain file opened for reading, which never waits; raises OSError where it is none."""
    if not stat.S_ISREG(path.stat().st_mode):  # before it is opened: opening a device may do something
        raise OSError(errno.EINVAL, "is no plain file", str(path))
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is no plain file", str(path))
    try:
        os.pread(file.fileno(), 1, 0)  # some of /proc look plain and wait for content
    except OSError as error:
        file.close()
        raise OSError(error.errno, error.strerror, str(path)) from error
    return file


def whole_file(path: Path, most_bytes: int, what: str) -> bytes:
    """The bytes of a plain file; InputError where it cannot be read or is larger than ``what`` ever is."""
    try:
        with open_plain(path) as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check its permissions") from error
    if len(data) > most_bytes:
        raise InputError(f"{path}: is larger than {most_bytes >> 20} MiB, which no {what} is")
    return data


def lies_within(path: Path, folder: Path) -> bool:
    """Return whether a path ends up inside of a folder when all links are followed; a loop of links ends nowhere."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False


def leads_out(file: Path, folder: Path) -> bool:
    """Return whether a file found in a folder, or below it without a link, is a link that leads out of that folder."""
    return file.is_symlink() and not lies_within(file, folder)
