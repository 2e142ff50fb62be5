"""The beginning of a small file that lies beside the traces, plain or gzip-compressed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.errors import InputError
from tools.sources.expand import Expansion
from tools.sources.options import Limits

PACKED = ".gz"


@dataclass(frozen=True)
class Beginning:
    """``data``, whether the file holds ``more`` than was asked for, and what was wrong with its compression."""

    data: bytes
    more: bool
    damage: str


def beginning(path: Path, most_bytes: int) -> Beginning:
    """At most so many bytes, expanded where the content is gzip, whatever the name; raises OSError."""
    data = bytearray()
    expansion = Expansion(path, Limits())
    try:
        for piece in expansion:
            data += piece
            if len(data) > most_bytes:
                break
    except InputError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        return Beginning(bytes(data[:most_bytes]), True, "it expands more than any such file does")
    return Beginning(bytes(data[:most_bytes]), len(data) > most_bytes, expansion.damage)


def unpacked_name(path: Path) -> str:
    """The file's name as it was before it was compressed."""
    return path.name.removesuffix(PACKED)
