"""Decodes a monitor's step file, and the ring beside it where the process ended without flushing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from tools.sources.monitor.environment import LARGEST, Amount, Whole
from tools.sources.monitor.ring import MAGIC as RING_MAGIC
from tools.sources.monitor.ring import UNKNOWN_US, own_ring, ring_rows
from tools.sources.small_files import Beginning, beginning

STEPS_MAGIC = b"HDXSTEP1"
SCHEMA = "hermes-dx/monitor/1"
PREAMBLE_BYTES = 12
HEADER_BYTES = 8192
LARGEST_BYTES = 2 << 30
LARGEST_RANK = 1 << 20
CODES = {"Q": "<u8", "q": "<i8", "I": "<u4", "i": "<i4"}
NEEDED = frozenset(
    (
        *("sequence", "step", "end_unix_ns", "wall_us", "data_wait_us", "own_us", "waiting_us", "samples", "flags"),
        *("gc_us", "gc_longest_us", "gc_runs", "thread_cpu_us", "fetches"),
        *("in_flight", "result_queue", "pinned_queue"),
    )
)


class StepFileError(ValueError):
    """A step file that cannot be read; the message names it."""


class _Workload(msgspec.Struct):
    batch_size: Whole | None = None
    flops_per_step: Amount | None = None
    peak_flops_per_s: Amount | None = None


class _Description(msgspec.Struct):
    schema: str
    rank: Whole
    start_unix_ns: Whole
    fields: list[tuple[str, str]]
    host: str = ""
    world_size: Whole | None = None
    local_rank: Whole | None = None
    pid: Whole = 0
    workload: _Workload = msgspec.field(default_factory=_Workload)


@dataclass(frozen=True)
class Head:
    """Who wrote a step file."""

    rank: int
    world_size: int | None
    host: str
    start_unix_ns: int
    batch_size: int | None
    flops_per_step: float | None
    peak_flops_per_s: float | None
    local_rank: int | None


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
    """Decodes a step file; raises StepFileError."""
    content = _content(path, path.parent)
    data = content.data
    about = _description(path, data, STEPS_MAGIC)
    dtype = _dtype(path, about.fields)
    begin = PREAMBLE_BYTES + int.from_bytes(data[8:12], "little")
    count, torn = divmod(len(data) - begin, dtype.itemsize)
    rows = np.frombuffer(data, dtype, count, begin)
    notes = [f"{path}: {content.damage}; the steps before that were read"] if content.damage else []
    notes += [f"{path} ends within a record; its last {torn} bytes were left out"] if torn else []
    left = _left_in_ring(path, about, dtype)
    rows = rows if left is None else np.concatenate([rows, left])
    _, kept = np.unique(rows["sequence"], return_index=True)
    rows = rows[kept]
    lost = int(rows["sequence"][-1]) + 1 - len(rows) if len(rows) else 0
    if lost:
        notes.append(f"{path}: {lost} steps passed faster than they could be written, or were cut off, and are missing")
    possible = _possible(rows)
    if impossible := len(rows) - int(possible.sum()):
        notes.append(f"{path}: {impossible} steps have no possible duration or time and were left out")
    rows = rows[possible]
    head = Head(
        about.rank,
        about.world_size,
        about.host[:256],
        about.start_unix_ns,
        about.workload.batch_size,
        about.workload.flops_per_step,
        about.workload.peak_flops_per_s,
        about.local_rank,
    )
    in_order = left is None and not content.damage
    return RankSteps(path, head, rows, lost, in_order, tuple(notes))


def _possible(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which records are of a step that took some time, with numbers that can be subtracted."""
    took = (rows["wall_us"] > 0) & (rows["wall_us"] < UNKNOWN_US)
    dated = (rows["end_unix_ns"] >= 0) & (rows["end_unix_ns"] <= LARGEST)
    return took & dated & (rows["step"] >= -LARGEST) & (rows["step"] <= LARGEST)


def _content(path: Path, inside: Path) -> Beginning:
    try:
        if not path.resolve().is_relative_to(inside.resolve()) or not path.is_file():
            raise StepFileError(f"{path}: lies outside of its folder or is no file; it was left out")
        content = beginning(path, LARGEST_BYTES)
    except OSError as error:
        raise StepFileError(f"{path}: cannot be read ({error.strerror}); check the rights") from error
    if content.more:
        why = content.damage or f"is larger than {LARGEST_BYTES} bytes"
        raise StepFileError(f"{path}: {why}; it was left out")
    return content


def _description(path: Path, data: bytearray, magic: bytes) -> _Description:
    length = int.from_bytes(data[8:12], "little")
    if data[:8] != magic or length > HEADER_BYTES or len(data) < PREAMBLE_BYTES + length:
        raise StepFileError(f"{path}: is no file of the monitor, or was cut off in its head")
    try:
        about = msgspec.json.decode(data[PREAMBLE_BYTES : PREAMBLE_BYTES + length], type=_Description)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StepFileError(f"{path}: its head cannot be read ({error})") from error
    if about.schema != SCHEMA:
        raise StepFileError(f"{path}: is of schema {about.schema[:60]!r}, {SCHEMA!r} can be read; update hermes-dx")
    if not 0 <= about.rank <= LARGEST_RANK:
        raise StepFileError(f"{path}: says it is of rank {about.rank}; it was left out")
    return about


def _dtype(path: Path, fields: list[tuple[str, str]]) -> np.dtype[np.void]:
    names = [name for name, _ in fields]
    if len(set(names)) != len(names) or not set(names) >= NEEDED or any(code not in CODES for _, code in fields):
        raise StepFileError(f"{path}: its head does not name the fields of a step")
    return np.dtype([(name, CODES[code]) for name, code in fields])


def _left_in_ring(path: Path, about: _Description, dtype: np.dtype[np.void]) -> NDArray[np.void] | None:
    """The records of the ring, None when it is gone (its owner ended in order) or is not that rank's."""
    ring = own_ring(path)
    if ring is None:
        return None
    try:
        data = _content(ring, ring.parent).data
        own = _description(ring, data, RING_MAGIC)
    except StepFileError:
        return None
    if (own.rank, own.pid, own.start_unix_ns) != (about.rank, about.pid, about.start_unix_ns):
        return None
    return ring_rows(data, dtype)
