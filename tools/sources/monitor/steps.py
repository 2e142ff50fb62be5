"""Decode a monitor's step file, and the ring where the process ended without flushing.

A step file names its own fields, so that files of other versions are read as well. Both files are laid out in
``hermes_agent.monitor.format``.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from hermes_agent.monitor import format as ring
from hermes_agent.monitor.format import HEADER_BYTES, PREAMBLE, SCHEMA, UNKNOWN_US, RawStep
from tools.run.recorded.records import LARGEST, Amount, Whole
from tools.sources.decompress import Beginning, beginning
from tools.sources.plain_files import lies_within

LARGEST_BYTES = 2 << 30
LARGEST_RANK = 1 << 20
CODES = {"Q": "<u8", "q": "<i8", "I": "<u4", "i": "<i4"}
NOT_ALWAYS = ("voluntary_switches", "involuntary_switches", "major_faults")
NEEDED = frozenset(name for name, _ in ring.FIELDS) - set(NOT_ALWAYS)
RECORD_ROW = np.dtype([(name, CODES[code]) for name, code in ring.FIELDS])
# Running sums that never fall; the CPU clock is of the thread that called, which may change.
GROWING = [RawStep._fields.index(name) for name in ("clock", "data", "waiting", "gc", "gc_runs", "fetches")]


class StepFileError(ValueError):
    """A step file that cannot be read; the message names it."""


class Workload(msgspec.Struct):
    """Samples and FLOPs of a step, as the script said."""

    batch_size: Whole | None = None
    flops_per_step: Amount | None = None
    peak_flops_per_s: Amount | None = None


class Head(msgspec.Struct):
    """Who wrote a step file, and the fields of its records."""

    schema: str
    rank: Whole
    start_unix_ns: Whole
    fields: list[tuple[str, str]]
    host: str = ""
    world_size: Whole | None = None
    local_rank: Whole | None = None
    pid: Whole = 0
    workload: Workload = msgspec.field(default_factory=Workload)


@dataclass(frozen=True)
class RankSteps:
    """One step file: a structured array of records in the order of their sequence numbers, each number once."""

    path: Path
    head: Head
    rows: NDArray[np.void]
    lost: int
    ended_in_order: bool
    notes: tuple[str, ...]


def read_steps(path: Path) -> RankSteps:
    """Decode a step file; raises StepFileError."""
    content = _content(path, path.parent)
    data = content.data
    head = _head(path, data, ring.STEPS_MAGIC)
    dtype = _dtype(path, head.fields)
    begin = PREAMBLE.size + PREAMBLE.unpack_from(data)[1]
    count, torn = divmod(len(data) - begin, dtype.itemsize)
    rows = np.frombuffer(data, dtype, count, begin)
    notes = [f"{path}: {content.damage}; the steps before that were read"] if content.damage else []
    notes += [f"{path} ends within a record; its last {torn} bytes were left out"] if torn else []
    left = _left_in_ring(path, head)
    rows = rows if left is None else np.concatenate([rows, _as_type(left, dtype)])
    _, first = np.unique(rows["sequence"], return_index=True)
    rows = rows[first]
    lost = int(rows["sequence"][-1]) + 1 - len(rows) if len(rows) else 0
    if lost:
        notes.append(f"{path}: {lost} steps ended faster than they could be written, or were cut off; they are missing")
    possible = _possible(rows)
    if impossible := len(rows) - int(possible.sum()):
        notes.append(f"{path}: {impossible} steps have no possible duration or time and were left out")
    return RankSteps(path, head, rows[possible], lost, left is None and not content.damage, tuple(notes))


def _possible(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    """True for records of a step that took some time, with numbers that can be subtracted."""
    took = (rows["wall_us"] > 0) & (rows["wall_us"] < UNKNOWN_US)
    dated = (rows["end_unix_ns"] >= 0) & (rows["end_unix_ns"] <= LARGEST)
    return took & dated & (rows["step"] >= -LARGEST) & (rows["step"] <= LARGEST)


def _content(path: Path, inside: Path) -> Beginning:
    try:
        if not path.is_file() or not lies_within(path, inside):
            raise StepFileError(f"{path}: lies outside of its folder or is no file; it was left out")
        content = beginning(path, LARGEST_BYTES)
    except OSError as error:
        raise StepFileError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if content.more:
        why = content.damage or f"is larger than {LARGEST_BYTES} bytes"
        raise StepFileError(f"{path}: {why}; it was left out")
    return content


def _head(path: Path, data: bytearray, expected: bytes) -> Head:
    magic, length = PREAMBLE.unpack_from(data) if len(data) >= PREAMBLE.size else (b"", 0)
    if magic != expected or length > HEADER_BYTES or len(data) < PREAMBLE.size + length:
        raise StepFileError(f"{path}: is no file of the monitor, or was cut off in its head")
    try:
        head = msgspec.json.decode(data[PREAMBLE.size : PREAMBLE.size + length], type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StepFileError(f"{path}: its head cannot be read ({error})") from error
    if head.schema != SCHEMA:
        raise StepFileError(f"{path}: is of schema {head.schema[:60]!r}, {SCHEMA!r} can be read; update hermes-dx")
    if not 0 <= head.rank <= LARGEST_RANK:
        raise StepFileError(f"{path}: says it is of rank {head.rank}; it was left out")
    return head


def _dtype(path: Path, fields: list[tuple[str, str]]) -> np.dtype[np.void]:
    names = [name for name, _ in fields]
    if len(set(names)) != len(names) or not set(names) >= NEEDED or any(code not in CODES for _, code in fields):
        raise StepFileError(f"{path}: its head does not name the fields of a step")
    return np.dtype([(name, CODES[code]) for name, code in fields])


def _left_in_ring(path: Path, head: Head) -> NDArray[np.void] | None:
    """The records of the ring, None when it is gone (its owner ended in order) or is not that rank's."""
    resolved = path.resolve()
    places = (folder / f"{path.stem}{ring.RING}" for folder in ring.ring_folders(resolved.parent.parent))
    found = next((place for place in places if _is_own_file(place)), None)
    if found is None:
        return None
    try:
        data = _content(found, found.parent).data
        own = _head(found, data, ring.RING_MAGIC)
    except StepFileError:
        return None
    same = (own.rank, own.pid, own.start_unix_ns) == (head.rank, head.pid, head.start_unix_ns)
    return ring_records(data) if same else None


def ring_records(data: bytes | bytearray) -> NDArray[np.void]:
    """The steps in a ring, in order; what was being overwritten is left out."""
    count = max(len(data) - ring.RECORDS_AT, 0) // ring.RAW.size
    if not count:
        return np.zeros(0, RECORD_ROW)
    slots = np.frombuffer(data, "<i8", count * ring.WORDS, ring.RECORDS_AT).reshape(count, ring.WORDS)
    written, _, _, unix_at_zero_ns = ring.STATE.unpack_from(data, ring.STATE_AT)
    sequence, clock = slots[:, 0], slots[:, GROWING[0]]
    # A slot that was never used is all zero; the sequence number of a used one fits its place. A step is counted as
    # written when all of it is in its slot: the one after it may be there by half.
    used = (clock > 0) & (sequence >= 0) & (sequence < written) & (sequence % count == np.arange(count))
    begin = np.frombuffer(data, "<i8", ring.WORDS, ring.BEGIN_AT).reshape(1, ring.WORDS)
    rows = np.concatenate([begin, slots[used]])
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    fallen = rows[1:, 0][(np.diff(rows[:, GROWING], axis=0) < 0).any(axis=1)]
    records = np.frombuffer(ring.packed_records(rows.tobytes(), unix_at_zero_ns), RECORD_ROW)
    return records[~np.isin(records["sequence"], fallen)]


def _as_type(records: NDArray[np.void], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """The records with the fields that a step file names; what this version does not have is unknown."""
    if records.dtype == dtype:
        return records
    rows = np.zeros(len(records), dtype)
    for name in dtype.names or ():
        rows[name] = records[name] if name in (RECORD_ROW.names or ()) else UNKNOWN_US
    return rows


def _is_own_file(path: Path) -> bool:
    try:
        kind = path.lstat()
    except (OSError, ValueError):
        return False
    others_may_write = kind.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(kind.st_mode) and kind.st_uid == os.getuid() and not others_may_write
