"""The folder in which the summaries of a run lie."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from tools.errors import InputError
from tools.leftovers import write_whole
from tools.run.packing import DamagedError
from tools.sources.plain_files import open_plain
from tools.summaries.file import MOST_BYTES, SUFFIX

CACHED = "summaries"  # in the cache
MOST_CACHED_BYTES = 4 << 30  # some 80,000 ranks of 2,500 collectives


class RefusedError(InputError):
    """The folder does not take a file, whichever it is."""


def file_bytes(opened: Callable[[], BinaryIO]) -> bytes | None:
    """The bytes of a summary's file, None where there is none; raises ``DamagedError`` where it cannot be read."""
    try:
        with opened() as file:
            data = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DamagedError(error.strerror or str(error)) from error
    if len(data) > MOST_BYTES:
        raise DamagedError("it is larger than any summary")
    return data


class SummaryFolder(Protocol):
    """A folder of files that are written whole or not at all; it travels to the workers of an executor."""

    @property
    def shown(self) -> str:
        """The folder as a person may see it."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, None where there is none; raises ``DamagedError`` where it cannot be read."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file; raises ``RefusedError`` where the folder does not take it."""


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine, or one that all machines share; it is made with its first file."""

    path: Path

    @property
    def shown(self) -> str:
        """The folder as a person may see it."""
        return str(self.path)

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, None where there is none."""
        return file_bytes(lambda: open_plain(self.path / name))

    def write(self, name: str, data: bytes) -> None:
        """Write a file."""
        if not write_whole(self.path / name, [data]):
            raise RefusedError(f"{self.path}: takes no file; check its permissions and the space left")


@dataclass(frozen=True)
class SecondFolder:
    """Summaries are taken from a first folder, which takes no more of them, and written to a second one."""

    first: SummaryFolder
    second: SummaryFolder

    @property
    def shown(self) -> str:
        """The folder that is written to."""
        return self.second.shown

    def read(self, name: str) -> bytes | None:
        """The bytes of a file of either folder, None where neither can give it."""
        data = self.second.read(name)
        if data is None:
            with suppress(DamagedError):  # it is made again
                data = self.first.read(name)
        return data

    def write(self, name: str, data: bytes) -> None:
        """Write a file to the second folder."""
        self.second.write(name, data)


def cached(cache_dir: Path, most_bytes: int = MOST_CACHED_BYTES) -> LocalFolder:
    """The folder of summaries in a cache; the oldest of them go where they are more than the cache is to hold."""
    folder = LocalFolder(cache_dir / CACHED)
    with suppress(OSError):  # there is none yet, or another process may be clearing the same folder
        sizes = {path: path.stat() for path in folder.path.glob(f"*{SUFFIX}")}
        room = most_bytes - sum(status.st_size for status in sizes.values())
        for path in sorted(sizes, key=lambda path: sizes[path].st_mtime_ns):
            if room >= 0:
                break
            path.unlink(missing_ok=True)
            room += sizes[path].st_size
    return folder
