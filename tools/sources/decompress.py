"""The bytes of a trace file, expanded piece by piece, with bounds on how far a small file may grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from tools.errors import InputError
from tools.sources.options import MIB, Limits

GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 31  # zlib's code for a gzip header and trailer around the largest window
READ_BYTES = MIB // 4
PIECE_BYTES = MIB // 4  # what is lost of a gzip stream before the place where it is damaged


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
                f"{self.path}: cannot be read ({error.strerror or error}); check path and rights"
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
                pending = (member.unused_data + file.read(READ_BYTES)) if member.unused_data else file.read(READ_BYTES)
                if not pending.startswith(GZIP_MAGIC):
                    self.read_bytes = self.file_bytes
                    return
                member = isal_zlib.decompressobj(wbits=GZIP_WINDOW)
            elif not pending:
                pending = file.read(READ_BYTES)
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
