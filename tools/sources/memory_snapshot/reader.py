"""Reads the pickle of ``torch.cuda.memory._dump_snapshot``, which holds plain containers alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pandas as pd

from tools.errors import InputError
from tools.run.program_frames import PYTHON_FILE, program_frame
from tools.run.recorded.memory_snapshots import BLOCK_COLUMNS, EVENT_COLUMNS, NO_PYTHON, MemorySnapshot
from tools.sources.decompress import beginning
from tools.sources.flight_recorder.plain_pickle import PickleError, loads
from tools.sources.ranks import named_ranks

LARGEST_BYTES = 128 << 20
MOST_OPERATIONS = 1 << 25
MOST_ENTRIES = 1 << 22  # of all lists: a pickle may repeat one list at no cost in bytes
LARGEST_SIZE = 1 << 48
DEEPEST = 512
LONGEST_NAME = 200
ACTIONS = (
    *("alloc", "free_requested", "free_completed", "oom"),
    *("segment_alloc", "segment_free", "segment_map", "segment_unmap"),
)
FREES = ("segment_free", "segment_unmap")
EMPTIES = re.compile(r"\Aempty_cache\Z|emptyCache(?!Impl)|\Aset_per_process_memory_fraction\Z")
FEWER = "record with fewer entries (`torch.cuda.memory._record_memory_history(max_entries=100000, stacks='python')`)"


class _Block(msgspec.Struct):
    size: int
    state: str
    address: int = -1
    requested_size: int = -1
    frames: object = None  # not converted: stacks are shared by many blocks


class _Segment(msgspec.Struct):
    blocks: list[_Block]
    device: int = 0
    address: int = 0


class _Event(msgspec.Struct):
    action: str
    size: int = 0
    addr: int = -1
    time_us: int = 0
    frames: object = None


class _Snapshot(msgspec.Struct):
    segments: list[_Segment]
    device_traces: list[list[_Event]] = []
    allocator_settings: dict[str, object] = {}


class _Frames:
    """The program's frame of each stack; a stack that many share is looked at once."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._known: dict[int, int] = {}  # by the identity of the list, which the snapshot keeps alive
        self._emptied: dict[int, int] = {}

    def row(self, frames: object) -> int:
        """The row of the frame; -1 where no stack was recorded."""
        if not isinstance(frames, list) or not frames:
            return -1
        known = self._known.get(id(frames))
        if known is None:
            stack = [_frame(each) for each in frames[:DEEPEST]][::-1]
            python = [each for each in stack if PYTHON_FILE.search(each)]
            name = program_frame(python) if python or not _of_c(stack) else NO_PYTHON
            known = self._known[id(frames)] = self._rows.setdefault(name or stack[-1], len(self._rows))
        return known

    def emptied(self, frames: object) -> int:
        """1 where the program itself has emptied the cache."""
        if not isinstance(frames, list) or not frames:
            return 0
        known = self._emptied.get(id(frames))
        if known is None:
            names = (each.get("name") for each in frames[:DEEPEST] if isinstance(each, dict))
            found = any(isinstance(name, str) and EMPTIES.search(name) for name in names)
            known = self._emptied[id(frames)] = int(found)
        return known

    @property
    def names(self) -> tuple[str, ...]:
        """The frames by row."""
        return tuple(self._rows)


def _of_c(stack: Sequence[str]) -> bool:
    """Whether frames of C++ are named, as ``stacks='all'`` records them."""
    return any("::" in each or each.endswith("(??)") for each in stack)


def _frame(frame: object) -> str:
    """A frame as "function (file:line)"."""
    said = frame if isinstance(frame, dict) else {}
    name, file = (text if isinstance(text := said.get(key), str) else "" for key in ("name", "filename"))
    line = said.get("line")
    where = f"{file}:{line}" if isinstance(line, int) and 0 < line < 1 << 31 else f"{file}"
    return f"{name[:LONGEST_NAME]} ({where[-LONGEST_NAME:]})"


def read_snapshots(path: Path) -> tuple[MemorySnapshot, ...]:
    """One snapshot for each device of the file that was used; InputError where there is none."""
    try:
        read = beginning(path, LARGEST_BYTES)
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror or error})") from error
    if read.more or read.damage:
        raise InputError(f"{path.name}: {read.damage or f'is larger than {LARGEST_BYTES >> 20} MiB'}; {FEWER}")
    try:
        value = loads(bytes(read.data), MOST_OPERATIONS)
        if _entries(value) > MOST_ENTRIES:
            raise InputError(f"{path.name}: holds more than {MOST_ENTRIES:,} blocks and events; {FEWER}")
        said = msgspec.convert(value, type=_Snapshot)
    except PickleError as error:
        raise InputError(f"{path.name}: is no memory snapshot that can be read: {error}; {FEWER}") from error
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{path.name}: is no memory snapshot of PyTorch: {error}") from error
    rank = (named_ranks([path]) or {}).get(path, -1)
    plain = {key: value for key, value in said.allocator_settings.items() if isinstance(value, str | int | float)}
    settings = {key[:LONGEST_NAME]: str(value)[:LONGEST_NAME] for key, value in plain.items()}
    used = {each.device for each in said.segments} | {at for at, own in enumerate(said.device_traces) if own}
    found = tuple(_of_device(path, rank, device, said, settings) for device in sorted(used))
    if not found:
        raise InputError(f"{path.name}: the snapshot holds no memory; take it while the training runs")
    return found


def _entries(value: object) -> int:
    """How many segments, blocks and events a snapshot holds, those of a repeated list counted each time."""
    said = value if isinstance(value, dict) else {}
    segments, traces = (
        each if isinstance(each := said.get(key), list) else [] for key in ("segments", "device_traces")
    )
    inner = [each.get("blocks") for each in segments if isinstance(each, dict)] + traces
    return len(segments) + len(traces) + sum(len(each) for each in inner if isinstance(each, list))


def _of_device(path: Path, rank: int, device: int, said: _Snapshot, settings: dict[str, str]) -> MemorySnapshot:
    frames = _Frames()
    traced: Sequence[_Event] = said.device_traces[device] if 0 <= device < len(said.device_traces) else ()
    events = [
        (
            each.action,
            _size(path, each.size),
            _address(each.addr),
            frames.row(each.frames),
            _address(each.time_us),
            frames.emptied(each.frames) if each.action in FREES else 0,
        )
        for each in traced
        if each.action in ACTIONS
    ]
    segments = [each for each in said.segments if each.device == device]
    blocks = [
        (
            *(number, _address(each.address), _size(path, each.size)),
            *(_size(path, each.size if each.requested_size < 0 else each.requested_size), frames.row(each.frames)),
            each.state[:LONGEST_NAME],
        )
        for number, segment in enumerate(segments)
        for each in segment.blocks
    ]
    return MemorySnapshot(
        rank=rank,
        device=device,
        file=path.name,
        events=pd.DataFrame(events, columns=list(EVENT_COLUMNS)).astype(EVENT_COLUMNS),
        blocks=pd.DataFrame(blocks, columns=list(BLOCK_COLUMNS)).astype(BLOCK_COLUMNS),
        frames=frames.names,
        settings=settings,
    )


def _size(path: Path, size: int) -> int:
    if not 0 <= size < LARGEST_SIZE:
        raise InputError(f"{path.name}: is no memory snapshot of PyTorch: a size in it is impossible")
    return size


def _address(value: int) -> int:
    """An address or a time, which are compared with each other only."""
    return value if 0 <= value < 1 << 62 else -1
