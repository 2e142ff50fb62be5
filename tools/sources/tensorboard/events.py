"""The scalars of a TensorBoard event file, which is a TFRecord file of protocol buffers.

A record: length (u64, little endian), its masked CRC-32C (u32), data, their masked CRC-32C (tensorflow
core/lib/io/record_writer.h). Event: wall_time 1 (double, s), step 2, summary 5; Summary: value 1; Value: tag 1,
simple_value 2 (float), tensor 8; TensorProto: dtype 1 (1 float, 2 double), tensor_content 4, float_val 5,
double_val 6 (tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from tools.sources.pieces import Pieces
from tools.sources.wire import WireError, fields, number, part

LENGTH = struct.Struct("<QI")
CHECKSUM_BYTES = 4
LARGEST_EVENT = 1 << 16  # bytes; larger ones hold graphs, pictures and histograms and are passed over
LARGEST_RECORD = 1 << 31
CASTAGNOLI, MASK = 0x82F63B78, 0xA282EAD8
FLOAT, DOUBLE = 1, 2
LONGEST_TAG = 200


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of a tag; ``record`` is the place of its event in the file, from 1."""

    record: int
    tag: str
    step: int
    wall_s: float  # since 1970
    value: float


@cache
def _table() -> tuple[int, ...]:
    values = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (CASTAGNOLI if value & 1 else 0)
        values.append(value)
    return tuple(values)


def masked_crc(data: bytes) -> int:
    """The checksum of TFRecord."""
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + MASK) & 0xFFFFFFFF


def is_event_file(start: bytes) -> bool:
    """Whether the first bytes are those of a record with an event in it."""
    if len(start) < LENGTH.size:
        return False
    length, checksum = LENGTH.unpack(start[: LENGTH.size])
    # The first event has a wall time: field 1, eight bytes.
    return 9 <= length < LARGEST_RECORD and start[12:13] == b"\x09" and masked_crc(start[:8]) == checksum


class EventFile:
    """Iterates over the scalars; afterwards ``records`` and ``damage`` say what was there."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = Pieces(pieces)
        self.records = 0
        self.unreadable = 0
        self.damage = ""

    def __iter__(self) -> Iterator[Scalar]:
        while head := self._pieces.take(LENGTH.size):
            if len(head) < LENGTH.size:
                self.damage = "it ends within a record"
                return
            length, checksum = LENGTH.unpack(head)
            if masked_crc(head[:8]) != checksum or length > LARGEST_RECORD:
                self.damage = f"record {self.records + 1} has a wrong length"  # where the next begins is not known
                return
            self.records += 1
            if length > LARGEST_EVENT:
                whole = self._pieces.skip(length + CHECKSUM_BYTES) == length + CHECKSUM_BYTES
                data = b""
            else:
                data = self._pieces.take(length)
                stated = self._pieces.take(CHECKSUM_BYTES)
                whole = len(stated) == CHECKSUM_BYTES
                if whole and masked_crc(data) != int.from_bytes(stated, "little"):
                    self.unreadable += 1
                    continue
            if not whole:
                self.damage = "it ends within a record"
                return
            try:
                yield from _scalars(self.records, memoryview(data))
            except (WireError, UnicodeDecodeError, struct.error):
                self.unreadable += 1


def _scalars(record: int, event: memoryview) -> list[Scalar]:
    wall_s, step = 0.0, 0
    values: list[tuple[str, float]] = []
    for name, value in fields(event):
        if name == 1:
            (wall_s,) = struct.unpack("<d", part(value))
        elif name == 2:
            step = number(value)
        elif name == 5:
            values += [found for own, each in fields(part(value)) if own == 1 and (found := _value(part(each)))]
    return [Scalar(record, tag, step, wall_s, value) for tag, value in values]


def _value(message: memoryview) -> tuple[str, float] | None:
    """Tag and number of a value; None where it is no scalar."""
    tag, value = "", None
    for name, content in fields(message):
        if name == 1:
            tag = bytes(part(content)[:LONGEST_TAG]).decode("utf-8", "replace")
        elif name == 2:
            (value,) = struct.unpack("<f", part(content))
        elif name == 8:
            value = _tensor(part(content))
    return None if value is None else (tag, value)


def _tensor(message: memoryview) -> float | None:
    """The only element of a tensor of floats or doubles."""
    kind = 0
    for name, content in fields(message):
        if name == 1:
            kind = number(content)
        elif name in (4, 5, 6) and kind in (FLOAT, DOUBLE):
            data = part(content)
            width, form = (4, "<f") if kind == FLOAT else (8, "<d")
            if len(data) == width:
                return float(struct.unpack(form, data)[0])
    return None
