"""The bytes of a source file, expanded piece by piece, with bounds on how far a small file may grow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from isal import isal_zlib

from tools.errors import InputError
from tools.sources.options import MIB, Limits

PACKED = ".gz"
GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 31  # zlib's code for a gzip header and trailer around the largest window
PIECE_BYTES = MIB // 4  # read and expanded at once: what is lost of a gzip stream before the place of its damage
LARGEST_UNPACKED = 512 * MIB  # what the monitor writes into one file at most, unless set otherwise
BEYOND = "it expands more than any such file does"
T = TypeVar("T")


class Expansion:
    """Iterates over the expanded bytes of one file; afterwards ``damage`` says what was wrong with it, if anything."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self.limits = limits
        self.file_bytes = 0
        self.read_bytes = 0
        self.expanded_bytes = 0
        self.damage = ""

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                self.file_bytes = file.seek(0, 2)
                file.seek(0)
                start = file.read(2)
                file.seek(0)
                pieces = self._gunzip(file) if start == GZIP_MAGIC else self._plain(file)
                for piece in pieces:
                    self.expanded_bytes += len(piece)
                    self._check_growth()
                    yield piece
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be read ({error.strerror or error}); check its path and permissions"
            ) from error

    def _plain(self, file: BinaryIO) -> Iterator[bytes]:
        while piece := file.read(PIECE_BYTES):
            self.read_bytes += len(piece)
            yield piece

    def _gunzip(self, file: BinaryIO) -> Iterator[bytes]:
        member = isal_zlib.decompressobj(wbits=GZIP_WINDOW)
        pending = b""
        while True:
            if member.eof:
                pending = member.unused_data + file.read(PIECE_BYTES)
                if not pending.startswith(GZIP_MAGIC):
                    self.read_bytes = self.file_bytes
                    return
                member = isal_zlib.decompressobj(wbits=GZIP_WINDOW)
            elif not pending:
                pending = file.read(PIECE_BYTES)
                if not pending:
                    self.damage = "the gzip stream ends before its end mark"
                    return
            self.read_bytes = file.tell()
            try:
                piece = member.decompress(pending, PIECE_BYTES)
            except isal_zlib.error as error:  # type: ignore[misc] # its stub declares an instance
                self.damage = f"the gzip stream is damaged ({error})"
                return
            pending = member.unconsumed_tail
            if piece:
                yield piece

    def _check_growth(self) -> None:
        grown, limits = self.expanded_bytes, self.limits
        if grown > limits.expanded_bytes:
            raise InputError(
                f"{self.path}: expands beyond the limit of {limits.expanded_bytes / 2**30:g} GiB; "
                "profile fewer steps, or raise the limit on expanded bytes"
            )
        if grown > limits.ratio_free_bytes and grown > limits.ratio * max(self.read_bytes, 1):
            raise InputError(
                f"{self.path}: expands more than {limits.ratio} times, which no trace does; it is not read for safety"
            )


@dataclass(frozen=True)
class Beginning:
    """``data``, whether the file holds ``more`` than was wanted, and what was wrong with its compression."""

    data: bytearray  # not a copy: a file may be as large as half of the memory
    more: bool
    damage: str


def beginning(path: Path, most_bytes: int) -> Beginning:
    """At most so many bytes, expanded where the content is gzip, whatever the name; raises OSError."""
    data = bytearray()
    with path.open("rb") as file:
        packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    most = min(most_bytes, LARGEST_UNPACKED) if packed else most_bytes
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


def decode_lines(decoder: msgspec.json.Decoder[T], data: bytearray) -> tuple[list[T], int]:
    """The JSON lines that decode, in order, and the number of those that do not."""
    unreadable = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
    try:
        return decoder.decode_lines(data), 0
    except unreadable:
        pass
    lines: list[T] = []
    bad = 0
    for line in filter(None, data.split(b"\n")):
        try:
            lines.append(decoder.decode(line))
        except unreadable:
            bad += 1
    return lines, bad


def unpacked_name(path: Path) -> str:
    """The file's name as it was before it was compressed."""
    return path.name.removesuffix(PACKED)


def plain_or_packed(folder: Path, names: re.Pattern[str]) -> list[Path]:
    """Files of these names in order, also compressed ones; of a file that is there twice the plain one.

    None where there is no such folder; raises OSError where it cannot be listed.
    """
    if not folder.is_dir():
        return []
    entries = [entry for entry in folder.iterdir() if names.match(unpacked_name(entry))]
    packed_first = sorted(entries, key=lambda entry: not entry.name.endswith(PACKED))
    return sorted({unpacked_name(entry): entry for entry in packed_first}.values())
