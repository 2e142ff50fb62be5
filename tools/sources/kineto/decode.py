"""Typed decoding of a slice of events, tolerant decoding of one that does not keep to the types, and lenient JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tools.documents import MAX_DEPTH, DepthError, parse_json
from tools.sources.kineto.miswritten import is_single_event, with_whole_escapes
from tools.sources.kineto.times import Times, decimal_times, float_times, plain_times

QUOTE, BACKSLASH = ord('"'), ord("\\")
OPENING = (ord("["), ord("{"))
CLOSING = (ord("]"), ord("}"))


@dataclass(frozen=True)
class Spans:
    """Byte ranges of the objects that are direct members of the array the text begins with.

    ``closed`` is the offset of the array's closing bracket, -1 when the text ends before it.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    closed: int


def object_spans(text: bytearray | bytes) -> Spans:
    """Find the array's complete member objects; ``text`` has to begin with the array's opening bracket."""
    data = np.frombuffer(text, dtype=np.uint8)
    inside = _string_edges(data)
    marks = np.flatnonzero(np.isin(data, OPENING + CLOSING))
    in_string = np.searchsorted(inside, marks) % 2 == 1
    marks = marks[~in_string]
    opening = np.isin(data[marks], OPENING)
    depth = np.cumsum(np.where(opening, 1, -1))
    end = np.flatnonzero(depth == 0)
    if len(end):
        marks, opening, depth = marks[: end[0] + 1], opening[: end[0] + 1], depth[: end[0] + 1]
    closed = int(marks[-1]) if len(end) else -1
    brace = data[marks] == ord("{")
    starts = marks[opening & brace & (depth == 2)]
    ends = marks[~opening & (depth == 1) & (data[marks] == ord("}"))] + 1
    ends = ends[: len(starts)]
    return Spans(starts[: len(ends)].astype(np.int64), ends.astype(np.int64), closed)


def _string_edges(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Offsets of the quotes that begin or end a string."""
    quotes = np.flatnonzero(data == QUOTE)
    slashes = np.flatnonzero(data == BACKSLASH)
    if not len(slashes):
        return quotes
    run_start = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    run_length = np.diff(np.append(run_start, len(slashes)))
    after = slashes[run_start] + run_length
    escaped = after[run_length % 2 == 1]
    return quotes[~np.isin(quotes, escaped)]


def parse_members(text: bytes) -> dict[str, Any] | None:
    """The members of a JSON object, read leniently and without what is nested too deeply; None when it is none."""
    try:
        try:
            value = parse_lenient(text.decode("utf-8", "replace"))
        except DepthError:
            value = parse_lenient(_without_deep(text).decode("utf-8", "replace"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _without_deep(text: bytes) -> bytes:
    """A JSON text without all that is nested deeper than ``MAX_DEPTH`` levels; raises DepthError where it is long."""
    if len(text) > DEEP_BYTES:
        raise DepthError
    data = np.frombuffer(text, dtype=np.uint8)
    edge = np.zeros(len(data), dtype=np.uint8)
    edge[_string_edges(data)] = 1
    outside = np.cumsum(edge, dtype=np.uint8) % 2 == 0
    opened, closed = np.isin(data, OPENING) & outside, np.isin(data, CLOSING) & outside
    depth = np.cumsum(opened.astype(np.int8) - closed.astype(np.int8), dtype=np.int32)  # behind each byte
    return bytes(data[(depth < MAX_DEPTH) | ((depth == MAX_DEPTH) & ~closed)])


def parse_lenient(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text; raises ``ValueError`` where it has none.

    Escaped halves of surrogate pairs are replaced: no text with one can be written anywhere.
    """
    value = parse_json(text, strict=False)
    if "\\ud" not in text.lower():
        return value
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return parse_json(whole, strict=False)


DEEP_BYTES = 8 << 20  # of metadata: its levels are counted in some ten times as much memory
NO_RAW = msgspec.Raw(b"")
EXACT_BELOW_US = float(2**43)  # below it a float64 in microseconds is within half a nanosecond of the text

NO_TEXT = re.compile("\0|\ufffd{16}")  # no profiler writes that into a name; a lost page of a disk is full of it

DECODE_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class Args(msgspec.Struct, gc=False):
    """The attributes of an event that are of use; the values are as recorded and may be of any type."""

    external: Any = msgspec.field(name="External id", default=-1)
    external_old: Any = msgspec.field(name="external id", default=-1)
    device: Any = -1
    stream: Any = -1
    correlation: Any = -1
    bytes: Any = -1
    registers: Any = msgspec.field(name="registers per thread", default=None)
    shared_memory: Any = msgspec.field(name="shared memory", default=None)
    warps: Any = msgspec.field(name="warps per SM", default=None)
    grid: msgspec.Raw = NO_RAW
    block: msgspec.Raw = NO_RAW
    occupancy: Any = msgspec.field(name="est. achieved occupancy %", default=None)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=NO_RAW)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NO_RAW)
    stack: Any = msgspec.field(name="Call stack", default="")
    forward_thread: Any = msgspec.field(name="Fwd thread id", default=-1)
    sequence: Any = msgspec.field(name="Sequence number", default=-1)
    python_id: Any = msgspec.field(name="Python id", default=-1)
    python_parent: Any = msgspec.field(name="Python parent id", default=-1)
    collective: Any = msgspec.field(name="Collective name", default=None)
    in_elements: Any = msgspec.field(name="In msg nelems", default=-1)
    out_elements: Any = msgspec.field(name="Out msg nelems", default=-1)
    group_size: Any = msgspec.field(name="Group size", default=-1)
    dtype: Any = ""
    group: Any = msgspec.field(name="Process Group Name", default="")
    group_description: Any = msgspec.field(name="Process Group Description", default="")
    group_ranks: Any = msgspec.field(name="Process Group Ranks", default="")
    device_type: Any = msgspec.field(name="Device Type", default=-1)
    device_id: Any = msgspec.field(name="Device Id", default=-1)
    memory_bytes: Any = msgspec.field(name="Bytes", default=0)
    total_allocated: Any = msgspec.field(name="Total Allocated", default=-1)
    total_reserved: Any = msgspec.field(name="Total Reserved", default=-1)
    sync_kind: Any = msgspec.field(name="cuda_sync_kind", default="")
    wait_on_stream: Any = -1
    wait_on_record: Any = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=-1)
    wait_on_event: Any = msgspec.field(name="wait_on_cuda_event_id", default=-1)
    connection: Any = msgspec.field(name="connection_id", default=-1)  # Ascend: joins a call with its device work
    algorithm: Any = msgspec.field(name="alg_type", default=None)  # Ascend: on a whole collective
    count: Any = -1
    data_type: Any = ""
    number: Any = msgspec.field(name="Ev Idx", default=-1)
    label: Any = msgspec.field(name="name", default="")
    mhz: Any = msgspec.field(name="MHz", default=None)  # Ascend: a reading of the cores' clock
    labels: Any = ""


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    args: Args | None = None
    id: int | str = -1


class Event(_Event, gc=False):
    """One trace event; times in microseconds, NaN when absent."""

    ts: int | float = float("nan")
    dur: int | float = 0


class TextEvent(_Event, gc=False):
    """An event whose times need more digits than a float64 has, as they are written."""

    ts: msgspec.Raw = NO_RAW
    dur: msgspec.Raw = NO_RAW


class ExactEvent(_Event, gc=False):
    """An event whose times may be written in any way, also as strings."""

    ts: Decimal = Decimal("nan")
    dur: Decimal = Decimal(0)


AnyEvent: TypeAlias = Event | TextEvent | ExactEvent


@dataclass
class Decoded:
    """The events of one slice and their times."""

    events: list[Event] | list[TextEvent] | list[ExactEvent]
    times: Times
    unreadable: int = 0  # single events that are badly written or not of the right types
    broken: int = 0  # what stands in the place of events and is no JSON


_decode_float: Callable[[bytearray], list[Event]] = msgspec.json.Decoder(list[Event]).decode
_decode_text: Callable[[bytearray], list[TextEvent]] = msgspec.json.Decoder(list[TextEvent]).decode
_decode_exact: Callable[[bytearray], list[ExactEvent]] = msgspec.json.Decoder(list[ExactEvent]).decode

Form = Literal["float", "text", "decimal"]


@dataclass
class Decoder:
    """Decodes slices. The form of times that a file needs is found at its first slices, and never goes back."""

    form: Form = "float"

    def strict(self, text: bytearray) -> Decoded:
        """The events of an array; raises one of ``DECODE_ERRORS`` when the text is no array of proper events."""
        if self.form == "float":
            try:
                events = _decode_float(text)
            except msgspec.ValidationError:
                decoded = _exact(_decode_exact(text))
                self.form = "decimal"
                return decoded
            starts = np.array([event.ts for event in events])
            try:
                if not _needs_digits(starts):
                    return Decoded(events, float_times(starts, np.array([event.dur for event in events])))
                self.form = "text"
            except OverflowError:  # a whole number of hundreds of digits
                self.form = "decimal"
        if self.form == "text":
            written = _decode_text(text)
            times = plain_times([event.ts for event in written], [event.dur for event in written])
            if times is not None:
                return Decoded(written, times)
            self.form = "decimal"
        return _exact(_decode_exact(text))

    def tolerant(self, text: bytearray) -> Decoded:
        """The events among the array's members that can be read, one by one; never raises."""
        spans = object_spans(text)
        pairs = zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
        found = [_one(bytes(text[start:end])) for start, end in pairs]
        events = [event for event in found if isinstance(event, ExactEvent)]
        return _exact(events, unreadable=found.count("unreadable"), broken=found.count("broken"))


def _exact(events: list[ExactEvent], unreadable: int = 0, broken: int = 0) -> Decoded:
    times = decimal_times([event.ts for event in events], [event.dur for event in events])
    return Decoded(events, times, unreadable, broken)


def _needs_digits(times: NDArray[Any]) -> bool:
    """Return True when there are times too large for a float64, and not all are written as whole microseconds."""
    return times.dtype.kind == "f" and bool((np.abs(times) >= EXACT_BELOW_US).any())


_decode_one: Callable[[bytes], ExactEvent] = msgspec.json.Decoder(ExactEvent).decode


def _one(text: bytes) -> ExactEvent | Literal["unreadable", "broken"]:
    try:
        return _decode_one(text)
    except DECODE_ERRORS:
        pass
    written = text.decode("utf-8", "replace")
    if NO_TEXT.search(written):
        return "broken"
    repaired = with_whole_escapes(written)
    for each in (written, repaired):
        try:
            return _loose(each)
        except json.JSONDecodeError:
            continue
        except (ValueError, RecursionError):
            return "unreadable"
    return "unreadable" if written.encode() == text and is_single_event(repaired) else "broken"


def _loose(text: str) -> ExactEvent:
    """The event of a JSON text whose values may be of neighbouring types; raises ValueError or RecursionError."""
    value = parse_json(text, strict=False, parse_float=str, parse_constant=str)
    plain = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return msgspec.json.decode(plain, type=ExactEvent, strict=False)
