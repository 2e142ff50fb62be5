"""Cuts the text of a trace into slices of whole events, without decoding it.

A slice is a JSON array of its own. Where a cut is made is a guess (the last place in the buffer that looks like the
gap between two events); that the slice then decodes as an array of objects proves the guess, because adding one
closing bracket to a prefix of a JSON text makes it valid only outside of strings and at the array's own depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tools.sources.options import Limits

ARRAY_START = re.compile(rb'"traceEvents"\s*:\s*\[')
FIRST = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\S)")
OVERLAP_BYTES = 64  # as long as the start of the array with some white space
GAP = re.compile(rb'\}\s*(,)\s*\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args|s)"\s*:')
LOOSE_GAP = re.compile(rb"\}\s*(,)\s*\{")
TAIL_WINDOWS = (1 << 13, 1 << 17, 1 << 23)  # how far back from the end a gap is looked for, nearest first
OPEN_BRACKET = ord("[")
CLOSE_BRACKET = ord("]")

Shape = Literal["object", "array", "none"]


@dataclass
class Slice:
    """A part of the event array: ``text`` is ``[event, event, ...]``, or ``[event, ...`` and all that follows."""

    index: int
    text: bytearray
    last: bool  # the text goes on to the end of the file, beyond the array


class Cutter:
    """Iterates over the slices of a trace; ``head`` and ``shape`` are known once the first slice has come."""

    def __init__(self, pieces: Iterable[bytes], limits: Limits) -> None:
        self.pieces = iter(pieces)
        self.limits = limits
        self.head = b""  # what stands before the event array
        self.shape: Shape = "none"

    def __iter__(self) -> Iterator[Slice]:
        buffer = self._find_array()
        if self.shape == "none":
            return
        index = 0
        for piece in self._portions():
            buffer += piece
            at = last_gap(buffer) if len(buffer) >= self.limits.slice_bytes else -1
            if at > 0:
                rest = bytearray(b"[")
                rest += memoryview(buffer)[at + 1 :]
                del buffer[at:]
                buffer.append(CLOSE_BRACKET)
                yield Slice(index, buffer, last=False)
                index, buffer = index + 1, rest
            elif len(buffer) > self.limits.slice_bytes + self.limits.event_bytes:
                break  # no event is this long: what follows is not a trace any more
        yield Slice(index, buffer, last=True)

    def _portions(self) -> Iterator[bytes | memoryview]:
        step = self.limits.slice_bytes
        for piece in self.pieces:
            if len(piece) <= step:
                yield piece
            else:
                yield from (memoryview(piece)[at : at + step] for at in range(0, len(piece), step))

    def _find_array(self) -> bytearray:
        """Read on to the start of the event array; the buffer returned begins with its bracket."""
        buffer = bytearray()
        for piece in self.pieces:
            searched = max(0, len(buffer) - OVERLAP_BYTES)
            buffer += piece
            start = FIRST.match(buffer)
            if start is None:
                buffer.clear()  # nothing but white space so far
                continue
            if start[1] == b"[":
                self.shape = "array"
                return buffer[start.start(1) :]
            if start[1] != b"{":
                break
            found = ARRAY_START.search(buffer, searched)
            if found:
                self.shape = "object"
                self.head = bytes(buffer[: found.start()])
                return buffer[found.end() - 1 :]
            if len(buffer) > self.limits.metadata_bytes:
                break
        self.head = bytes(buffer)
        return bytearray()


def last_gap(text: bytearray) -> int:
    """Where the comma between the last two events of the text probably is; -1 when there seems to be none."""
    for pattern in (GAP, LOOSE_GAP):
        for window in TAIL_WINDOWS:
            found = list(pattern.finditer(text, max(1, len(text) - window)))
            if found:
                return found[-1].start(1)
            if window >= len(text):
                break
    return -1
