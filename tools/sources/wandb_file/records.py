"""The records of a ``.wandb`` file: a LevelDB log with a header of its own (wandb/sdk/internal/datastore.py).

Header: ``:W&B``, 0xBEE1 (u16, little endian), version 0 (u8). Then blocks of 32 KiB (the first holds the header too)
of fragments: CRC-32 of type and data (u32), length (u16), type (u8: 1 whole, 2 first, 3 middle, 4 last).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

from tools.sources.pieces import Pieces

MAGIC = b":W&B\xe1\xbe"
VERSION = 0
HEADER_BYTES = 7
BLOCK_BYTES = 1 << 15
HEAD = struct.Struct("<IHB")
DAMAGED, WHOLE, FIRST, LAST = 0, 1, 2, 4
LARGEST_RECORD = 64 << 20
ENDS_WITHIN = "it ends within a record"


class RecordLog:
    """Iterates over the records with their number, from 1; afterwards ``damage`` says what could not be read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = Pieces(pieces)
        self.damage = ""
        self.damaged_blocks = 0
        self.dropped = 0

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        head = self._pieces.take(HEADER_BYTES)
        if not head.startswith(MAGIC) or head[-1:] != bytes([VERSION]):
            self.damage = "it does not begin as a W&B run file of version 0"
            return
        number = size = 0
        parts: list[bytes] = []
        for kind, data in self._fragments():
            if kind in (WHOLE, FIRST):
                parts, size = [], 0
            elif kind == DAMAGED or not parts:  # what began the record is lost
                parts = []
                self.dropped += kind == LAST
                continue
            size += HEAD.size + len(data)  # empty fragments take room as well
            if size > LARGEST_RECORD:
                parts = []
            else:
                parts.append(data)
            if parts and kind in (WHOLE, LAST):
                number += 1
                yield number, memoryview(b"".join(parts))
                parts = []
        if parts:
            self.damage = ENDS_WITHIN

    def _fragments(self) -> Iterator[tuple[int, bytes]]:
        """Type and data of each fragment that is as it was written; of a damaged block the rest is passed over."""
        left = BLOCK_BYTES - HEADER_BYTES
        while True:
            if left < HEAD.size:
                self._pieces.skip(left)
                left = BLOCK_BYTES
            head = self._pieces.take(HEAD.size)
            if len(head) < HEAD.size:
                self.damage = ENDS_WITHIN if head else ""
                return
            checksum, length, kind = HEAD.unpack(head)
            left -= HEAD.size
            wanted = min(length, left)
            data = self._pieces.take(wanted)
            left -= wanted
            if len(data) < wanted:
                self.damage = ENDS_WITHIN
                return
            if wanted == length and WHOLE <= kind <= LAST and zlib.crc32(data, zlib.crc32(head[6:])) == checksum:
                yield kind, data
                continue
            self._pieces.skip(left)
            left = BLOCK_BYTES
            self.damaged_blocks += 1
            yield DAMAGED, b""
