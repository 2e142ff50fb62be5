"""The beginning of a small file that lies beside the traces, plain or gzip-compressed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.errors import InputError
from tools.sources.decompress import GZIP_MAGIC, Expansion
from tools.sources.options import Limits

PACKED = ".gz"
LARGEST_UNPACKED = 512 << 20  # what the monitor writes into one file at most, unless told otherwise
BEYOND = "it expands more than any such file does"


@dataclass(frozen=True)
class Beginning:
    """``data``, whether the file holds ``more`` than was asked for, and what was wrong with its compression."""

    data: bytearray  # not a copy: a file may be as large as half of the memory
    more: bool
    damage: str


def beginning(path: Path, most_bytes: int) -> Beginning:
    """At most so many bytes, expanded where the content is gzip, whatever the name; raises OSError."""
    data = bytearray()
    most = min(most_bytes, LARGEST_UNPACKED) if _is_packed(path) else most_bytes
    expansion = Expansion(path, Limits())
    try:
        for piece in expansion:
            data += piece
            if len(data) > most:
                break
    except InputError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        del data[most:]
        return Beginning(data, True, BEYOND)
    more = len(data) > most
    del data[most:]
    return Beginning(data, more, BEYOND if more and most < most_bytes else expansion.damage)


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def unpacked_name(path: Path) -> str:
    """The file's name as it was before it was compressed."""
    return path.name.removesuffix(PACKED)
