"""Cuts the text of a trace into slices of whole events, without decoding it.

A slice is a JSON array of its own. Where a cut is made is a guess (the last place in the buffer that looks like the
gap between two events); that the slice then decodes as an array of objects proves the guess, because adding one
closing bracket to a prefix of a JSON text makes it valid only outside of strings and at the array's own depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from json import JSONDecoder
from typing import Any, Literal

import msgspec

from tools.sources.decompress import Expansion, Readable
from tools.sources.kineto.columns import BROKEN, Columns
from tools.sources.kineto.decode import DECODE_ERRORS, Decoder, object_spans, parse_members
from tools.sources.kineto.event_numbers import lost_events
from tools.sources.options import Limits

ARRAY_START = re.compile(rb'"traceEvents"\s*:\s*\[')
FIRST = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\S)")
OVERLAP_BYTES = 64  # as long as the start of the array with some white space
GAP = re.compile(rb'\}\s*(,)\s*\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args|s)"\s*:')
LOOSE_GAP = re.compile(rb"\}\s*(,)\s*\{")
TAIL_WINDOWS = (1 << 13, 1 << 17, 1 << 23)  # how far back from the end a gap is looked for, nearest first
CLOSE_BRACKET = ord("]")
TAIL_START = b'{"":0'  # makes an object of the members behind the event array
GOES_ON = re.compile(rb"\s*[,}\]]")  # behind a bracket that closed no event array: in damaged text it may be any
END_MARK = "Record Window End"  # of every version of Kineto the last event of a trace, behind all work and all marks

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
    """The probable place of the comma between the last two events of the text; -1 when there seems to be none."""
    for pattern in (GAP, LOOSE_GAP):
        for window in TAIL_WINDOWS:
            found = list(pattern.finditer(text, max(1, len(text) - window)))
            if found:
                return found[-1].start(1)
            if window >= len(text):
                break
    return -1


COMMA = ord(",")
OBJECT_START = b'{"traceEvents":'

Claim = Callable[[int], bool]


@dataclass
class Collected:
    """The result of one walk through a trace."""

    columns: Columns = field(default_factory=Columns)
    members: dict[str, Any] = field(default_factory=dict)  # the trace's metadata
    shape: Shape = "none"
    file_bytes: int = 0
    read_bytes: int = 0
    expanded_bytes: int = 0
    damage: str = ""  # why not everything could be read
    ended: bool = False  # the end of the event array was read
    unpacked: bool = True  # all that was compressed was expanded
    corrupt: bool = False  # some of the text is not what was written
    remarks: list[str] = field(default_factory=list)

    @property
    def damaged_within(self) -> bool:
        """Whether events are missing in the middle, and not behind the last that was read."""
        return bool(self.columns.excluded[BROKEN]) or self.corrupt or bool(lost_events(self.columns.numbered))

    @property
    def cut(self) -> str:
        """Why events are missing that the profiler wrote; "" where all are there, whatever else of the file is lost.

        A profiler writes thread after thread, what devices did last and partly in order of time. Where the end of the
        events was not read, whole threads, streams or kinds may be missing, and nothing in the rest shows which.
        """
        if self.columns.excluded[BROKEN]:
            return "it is damaged in the middle of the events: some are no JSON"
        if lost := lost_events(self.columns.numbered):
            return f"it is damaged in the middle of the events: {lost} that the profiler numbered are missing"
        whole = not self.corrupt and ((self.ended and self.unpacked) or END_MARK in self.columns.names)
        return "" if whole else self.damage or "its events have no end"


def _ends_object(text: bytes) -> bool:
    """Whether the text begins with a whole object that nothing goes on after as if it were a part of another."""
    try:
        _, end = JSONDecoder(strict=False).raw_decode(written := text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return not GOES_ON.match(written[end:].encode())


class NeedsCareError(Exception):
    """A shared walk met text that only a walk through the whole file can make sense of."""


class Walk:
    """One pass over a file. With a ``claim`` it decodes only the slices it is granted and insists on sound text."""

    def __init__(self, path: Readable, limits: Limits, claim: Claim | None = None) -> None:
        self.limits = limits
        self.claim = claim
        self.expansion = Expansion(path, limits)
        self.cutter = Cutter(self.expansion, limits)
        self.decoder = Decoder()
        self.result = Collected()
        self._pending = bytearray()
        self._tail: bytearray | None = None

    def run(self, heard: Callable[[int, int], None] | None = None) -> Collected:
        """Walk to the end; ``heard`` is called with the bytes read and the size of the file."""
        for piece in self.cutter:
            if self.claim is None:
                self._careful(piece)
            elif self.claim(piece.index):
                try:
                    self._decode(piece.text, piece.last)
                except DECODE_ERRORS as error:
                    raise NeedsCareError from error
                if len(self.result.columns.edges):
                    raise NeedsCareError  # begins and ends are paired in the order of the file
            if heard:
                heard(self.expansion.read_bytes, self.expansion.file_bytes)
            if self.result.damage:
                break
        return self._finish()

    def _careful(self, piece: Slice) -> None:
        if self._tail is not None:
            self._extend_tail(piece.text[1:], piece.last)
            return
        text = self._pending + piece.text[1:] if self._pending else piece.text
        self._pending = bytearray()
        try:
            self._decode(text, piece.last)
        except DECODE_ERRORS:
            self._salvage(text, piece.last)

    def _decode(self, text: bytearray, last: bool) -> None:
        """Decode a slice; the last one of a trace in an object goes on with the object's other members."""
        if not last or self.cutter.shape == "array":
            self.result.columns.add(self.decoder.strict(text))
            self.result.ended = last
            return
        members = msgspec.json.decode(OBJECT_START + text, type=dict[str, msgspec.Raw])
        self._add_events(bytearray(members.pop("traceEvents")))
        self.result.ended = True
        rest = b",".join(msgspec.json.encode(key) + b":" + bytes(value) for key, value in members.items())
        self.result.members |= parse_members(b"{" + rest + b"}") or {}

    def _add_events(self, text: bytearray) -> None:
        try:
            decoded = self.decoder.strict(text)
        except DECODE_ERRORS:
            decoded = self.decoder.tolerant(text)
        self.result.columns.add(decoded)

    def _salvage(self, text: bytearray, last: bool) -> None:
        """Take what is whole of text that did not decode as it stands."""
        spans = object_spans(text)
        closed = spans.closed
        if closed < 0 and not last and len(text) <= self.limits.slice_bytes + self.limits.event_bytes:
            text[-1] = COMMA  # the cut was in the middle of an event: try again with the next slice behind it
            self._pending = text
            return
        whole = bytearray(text[: int(spans.ends[-1])] if len(spans.ends) else b"[")
        whole.append(CLOSE_BRACKET)
        self._add_events(whole)
        if closed < 0:
            self.result.damage = self.expansion.damage or "the file ends or is damaged in the middle of the events"
        elif last or closed < len(text) - 1:
            self._tail = bytearray(TAIL_START)
            self._extend_tail(text[closed + 1 :], last)

    def _extend_tail(self, text: bytearray, last: bool) -> None:
        """Collect what stands behind the event array, and at the end make sense of it."""
        tail = self._tail = (self._tail or bytearray(TAIL_START)) + text
        if not last:
            tail[-1] = COMMA  # the cutter took it for the gap between two events
            if len(tail) > self.limits.metadata_bytes:
                self.result.damage = "what follows the events is too large to be read"
        elif self.cutter.shape == "array":
            self.result.ended = not GOES_ON.match(tail, len(TAIL_START))
        else:
            members = parse_members(bytes(tail))
            self.result.ended = members is not None or _ends_object(bytes(tail))
            if members is None:
                self.result.damage = "what follows the events is damaged"
            self.result.members |= members or {}

    def _finish(self) -> Collected:
        result = self.result
        result.shape = self.cutter.shape
        result.damage = result.damage or self.expansion.damage
        result.unpacked, result.corrupt = not self.expansion.damage, self.expansion.corrupt
        result.file_bytes = self.expansion.file_bytes
        result.read_bytes = self.expansion.read_bytes
        result.expanded_bytes = self.expansion.expanded_bytes
        if result.shape == "object":
            members = parse_members(self.cutter.head.rstrip().rstrip(b",") + b"}")
            if members is None:
                result.remarks.append("what stands before the events could not be read")
            result.members = (members or {}) | result.members
        return result
