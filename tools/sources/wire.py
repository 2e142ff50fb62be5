"""The wire format of protocol buffers (protobuf.dev/programming-guides/encoding), without a schema and in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

Bytes = TypeVar("Bytes", bytes, memoryview)
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 10
SIGN = 1 << 63


class WireError(ValueError):
    """Bytes that are no message."""


def fields(message: Bytes) -> Iterator[tuple[int, int | Bytes]]:
    """Number and value of each field, in order: whole numbers (unsigned), or the bytes of texts and messages.

    Raises WireError where the bytes are no message or end within a field.
    """
    at, size = 0, len(message)
    while at < size:
        key, at = (message[at], at + 1) if message[at] < 0x80 else varint(message, at)  # most numbers are one byte
        match key & 7:
            case 0:
                value, at = varint(message, at)
                yield key >> 3, value
                continue
            case 2:
                length, at = (message[at], at + 1) if at < size and message[at] < 0x80 else varint(message, at)
            case 1:
                length = 8
            case 5:
                length = 4
            case other:
                raise WireError(f"a field has the unknown wire type {other}")
        if length > size - at:
            raise WireError("a field is longer than what is there")
        yield key >> 3, message[at : at + length]
        at += length


def varint(message: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number that begins there, and the place behind it."""
    value = shift = 0
    for byte in message[at : at + LONGEST_VARINT]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise WireError("a number does not end")


def number(value: int | bytes | memoryview) -> int:
    """A field that has to be a whole number, read as int64."""
    if not isinstance(value, int):
        raise WireError("a number is not written as one")
    value &= 2 * SIGN - 1
    return value - 2 * SIGN if value >= SIGN else value


def part(value: int | Bytes) -> Bytes:
    """A field that has to be a text or a message."""
    if isinstance(value, int):
        raise WireError("a number stands in the place of a text")
    return value
