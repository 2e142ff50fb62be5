"""The bytes of a source file, expanded piece by piece, with bounds on how far a small file may grow."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, TypeAlias, TypeVar

import msgspec
from isal import isal_zlib

from tools.errors import InputError
from tools.sources.options import MIB, Limits
from tools.sources.plain_files import open_plain

PACKED = ".gz"
GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 31  # zlib's code for a gzip header and trailer around the largest window
PIECE_BYTES = MIB // 4  # read and expanded at once: what is lost of a gzip stream before the place of its damage
FIRST_BYTES = 512  # given to a new member, then twice as much each time: what a short one leaves is given again
LARGEST_UNPACKED = 512 * MIB  # what the monitor writes into one file at most, unless set otherwise
BEYOND = "it expands more than any such file does"
T = TypeVar("T")


class Stream(Protocol):
    """A source that can only be read from its start to its end, such as a file behind a URL; shown as its text."""

    @property
    def name(self) -> str:
        """The last part of what it is called."""

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Begin to read it; raises OSError, also when it is read."""


Readable: TypeAlias = Path | Stream


def opened(source: Readable) -> BinaryIO:
    """The bytes of a source, of a path those of a plain file alone; raises OSError."""
    return open_plain(source) if isinstance(source, Path) else source.open("rb")


class Expansion:
    """Iterates over the expanded bytes of one file; afterwards ``damage`` says what was wrong with it, if anything."""

    def __init__(self, path: Readable, limits: Limits) -> None:
        self.path = path
        self.limits = limits
        self.file_bytes = 0
        self.read_bytes = 0
        self.expanded_bytes = 0
        self.seconds = 0.0  # of a processor, spent expanding
        self.damage = ""
        self.corrupt = False  # some of what was expanded is not what was compressed

    def __iter__(self) -> Iterator[bytes]:
        try:
            with opened(self.path) as file:
                if file.seekable():
                    self.file_bytes = file.seek(0, 2)
                    file.seek(0)
                first = self._read(file)
                for piece in self._gunzip(file, first) if first.startswith(GZIP_MAGIC) else self._plain(file, first):
                    self.expanded_bytes += len(piece)
                    self._check_growth()
                    yield piece
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be read ({error.strerror or error}); check its path and permissions"
            ) from error

    def _read(self, file: BinaryIO) -> bytes:
        """The next piece; the size of a stream is known when it has been read."""
        piece = file.read(PIECE_BYTES)
        self.read_bytes += len(piece)
        self.file_bytes = max(self.file_bytes, self.read_bytes)
        return piece

    def _plain(self, file: BinaryIO, piece: bytes) -> Iterator[bytes]:
        while piece:
            yield piece
            piece = self._read(file)

    def _gunzip(self, file: BinaryIO, data: bytes) -> Iterator[bytes]:
        """Expand all members; what a member ends in the middle of is given to the next one, in time linear in both."""
        member, members = isal_zlib.decompressobj(wbits=GZIP_WINDOW), 1
        at, portion = 0, FIRST_BYTES
        while True:
            if at >= len(data) - 1:  # the mark of a member has two bytes
                data, at = data[at:] + self._read(file), 0
            if member.eof:
                if not data.startswith(GZIP_MAGIC, at):
                    self.read_bytes = self.file_bytes
                    return
                member, members, portion = isal_zlib.decompressobj(wbits=GZIP_WINDOW), members + 1, FIRST_BYTES
                self._check_members(members)
            fed = memoryview(data)[at : at + portion]
            started_s = time.thread_time()
            try:
                piece = member.decompress(fed, PIECE_BYTES)
            except isal_zlib.error as error:  # type: ignore[misc] # its stub declares an instance
                self.damage, self.corrupt = f"the gzip stream is damaged ({error})", True
                return
            self._check_time(time.thread_time() - started_s)
            at += len(fed) - len(member.unconsumed_tail) - len(member.unused_data)
            portion = min(2 * portion, PIECE_BYTES)
            if piece:
                yield piece
            elif not len(fed) and not member.eof:
                self.damage = "the gzip stream ends before its end mark"
                return

    def _check_members(self, members: int) -> None:
        if members > self.limits.members:
            raise InputError(
                f"{self.path}: is made of more than {self.limits.members:,} gzip members, which no trace is; "
                "it is not read for safety"
            )

    def _check_time(self, seconds: float) -> None:
        self.seconds += seconds
        if self.seconds > self.limits.expand_s:
            raise InputError(
                f"{self.path}: takes more than {self.limits.expand_s:g} s of a processor to expand; "
                "it is not read for safety"
            )

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


def beginning(path: Readable, most_bytes: int) -> Beginning:
    """At most so many bytes, expanded where the content is gzip, whatever the name; raises OSError."""
    data = bytearray()
    with opened(path) as file:
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


def whole_content(path: Readable, limits: Limits, most_bytes: int) -> bytes:
    """All bytes of a file that is read at once; InputError where it holds more or is damaged."""
    expansion = Expansion(path, limits)
    data = bytearray()
    for piece in expansion:
        data += piece
        if len(data) > most_bytes:
            raise InputError(f"{path}: holds more than {most_bytes >> 20} MiB; profile fewer steps")
    if expansion.damage:
        raise InputError(f"{path}: cannot be read whole: {expansion.damage}; copy the file again")
    return bytes(data)


def begins_object_with(path: Readable, marks: Sequence[bytes], most_bytes: int) -> bool:
    """Whether a file begins as a JSON object that has all marks in its first bytes; no where it cannot be read."""
    try:
        start = bytes(beginning(path, most_bytes).data)
    except OSError:
        return False
    return start.lstrip().startswith(b"{") and all(mark in start for mark in marks)


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
    with os.scandir(folder) as listed:
        entries = [folder / each.name for each in listed if names.match(each.name.removesuffix(PACKED))]
    packed_first = sorted(entries, key=lambda entry: not entry.name.endswith(PACKED))
    return sorted({unpacked_name(entry): entry for entry in packed_first}.values())
