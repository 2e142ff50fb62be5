"""An XProf recording as traces, one for each device, with the host threads that drive it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.errors import InputError
from tools.run.kinds import EventKind
from tools.run.model import Device
from tools.sources.decompress import Readable, whole_content
from tools.sources.formats import Heard
from tools.sources.jax.source import XPLANE
from tools.sources.jax.xplane import Line, LineEvents, Plane, Room, Space, read_space
from tools.sources.kineto.table import assemble
from tools.sources.nsys.rank_rows import RankRows
from tools.sources.options import LoadOptions
from tools.sources.trace_file import TraceFacts, TraceFile, TraceMetadata
from tools.sources.wire import WireError

LARGEST_BYTES = (1 << 31) - 1  # of a message of protocol buffers
EPOCH_NS = 10**18  # line timestamps beyond it are of the day; else they count from the start of the recording
DEVICE_PLANE = re.compile(r"/device:(?P<kind>\w+):(?P<index>\d{1,6})\Z")
HOST_PLANE = "/host:CPU"
STREAM = re.compile(r"Stream #(\d{1,9})")
OPERATIONS = {"XLA Ops": 0, "Async XLA Ops": 1}  # lanes of a TPU, by the stream that stands for them
STEPS = "Steps"
COPY = re.compile(r"Memcpy(?P<from>[HDP])2(?P<to>[HDP])|Copy(?P<source>Host|Device)To(?P<target>Host|Device)\Z")
COPY_LANE = re.compile(r"\((?:Memcpy\w*,?\s*)+\)")  # behind the name of a stream: what it did
CALL = re.compile(r"(?:cuda|cu|hip)[A-Z]\w+")
PYTHON_FRAME = re.compile(r"\$(?P<file>.*\.py):(?P<line>\d+) (?P<function>.+)\Z", re.S)
JITTED = "PjitFunction("  # a call of a jitted function: where steps are not marked, its calls may be the steps
GRID = re.compile(r"\b(?P<name>grid|block):(?P<x>\d{1,10}),(?P<y>\d{1,10}),(?P<z>\d{1,10})")
REGISTERS = re.compile(r"\bregs:(\d{1,6})")
SIZE = re.compile(r"\bsize:(\d{1,18})")
DEVICE_STATS = ("correlation_id", "kernel_details", "memcpy_details", "memset_details")
HOST_STATS = ("correlation_id", "step_num")
MOST_DEVICES = 1024
ADVICE = "record again with jax.profiler.trace(FOLDER)"


@dataclass(frozen=True, eq=False)
class HostLine:
    """A host thread's events, and the devices for which it launches work."""

    line: Line
    events: LineEvents
    names: list[str]
    correlation: NDArray[np.int64]
    devices: frozenset[int]


def read_xplane(path: Readable, digest: str, options: LoadOptions, heard: Heard | None = None) -> TraceFile:
    """The trace of the first device with the others; InputError where nothing in the file can be used."""
    data = whole_content(path, options.limits, LARGEST_BYTES)
    if heard is not None:
        heard(len(data) // 2, len(data))
    try:
        return _read(path, read_space(data), len(data), digest, options)
    except WireError as error:
        raise InputError(f"{path}: is no whole XProf recording: {error}; copy the file again, or {ADVICE}") from None


def _read(path: Readable, space: Space, size: int, digest: str, options: LoadOptions) -> TraceFile:
    room = Room()
    begin_ns = next((_start_of(plane) for plane in space.planes if plane.name == "Task Environment"), None)
    found = [(plane, match) for plane in space.planes if (match := DEVICE_PLANE.match(plane.name)) is not None]
    if len(found) > MOST_DEVICES:
        raise WireError(f"it holds more than {MOST_DEVICES} devices")
    ranks: dict[int, RankRows] = {}
    correlations: dict[int, NDArray[np.int64]] = {}
    devices: dict[int, Device] = {}
    idle: list[str] = []
    for plane, match in found:
        index, rows = int(match["index"]), RankRows()
        joined = _device_work(plane, match["kind"], index, rows, room)
        if rows.columns.rows and index not in ranks:
            ranks[index], correlations[index], devices[index] = rows, joined, _device(plane, match["kind"], index)
        else:
            idle.append(plane.name)
    hosts = [plane for plane in space.planes if plane.name == HOST_PLANE]
    threads = [each for plane in hosts for each in _host_lines(plane, correlations, room)]
    if not ranks and threads:
        ranks = {0: RankRows()}
    for index, rows in ranks.items():
        _add_host(rows, [each for each in threads if not each.devices or index in each.devices], index, correlations)
    other = _left_out(space.planes, idle)
    return _traces(path, ranks, devices, begin_ns, space.host, other, size, digest, options)


def _traces(
    path: Readable,
    ranks: dict[int, RankRows],
    devices: dict[int, Device],
    begin_ns: int | None,
    host: str,
    note: str,
    size: int,
    digest: str,
    options: LoadOptions,
) -> TraceFile:
    place = path if isinstance(path, Path) else Path(path.name)
    traces: list[TraceFile] = []
    for index, rows in sorted(ranks.items()):
        assembled = assemble(rows.columns, options.limits.span_days)
        if not len(assembled.table):
            continue
        absolute = assembled.origin_ns >= EPOCH_NS
        zero = 0 if absolute or begin_ns is None else begin_ns
        said = "; ".join(text for text in ("" if traces else note, _excluded(assembled.excluded)) if text)
        facts = TraceFacts(
            format=XPLANE.name,
            origin_ns=assembled.origin_ns + zero,
            epoch=absolute or begin_ns is not None,
            metadata=TraceMetadata(devices=(devices[index],) if index in devices else (), host=host),
            status="complete",
            note=said,
            bytes=size,
            events=rows.columns.seen,
            groups=assembled.groups,
        )
        traces.append(TraceFile(place, digest if not traces else f"{digest}-{index}", assembled.table, facts))
    if not traces:
        raise InputError(f"{path}: is an XProf recording without a single event of a device or of the host; {ADVICE}")
    first, *others = traces
    return replace(first, others=tuple(others), facts=replace(first.facts, others=tuple(t.digest for t in others)))


def _start_of(plane: Plane) -> int | None:
    """The time of day at which the recording began."""
    start = plane.stats.get("profile_start_time")
    return start if isinstance(start, int) and start >= EPOCH_NS else None


def _device(plane: Plane, kind: str, index: int) -> Device:
    """The device as the plane describes it; XProf names the vendor and sizes of a GPU, not its model."""
    stats = plane.stats

    def whole(name: str) -> int | None:
        value = stats.get(name)
        return value if isinstance(value, int) and value > 0 else None

    model = str(stats.get("device_type_string", "")) or f"{stats.get('device_vendor', '')} {kind}".strip()
    major, minor = whole("compute_cap_major"), stats.get("compute_cap_minor")
    capability = f"{major}.{minor}" if major and isinstance(minor, int) and minor >= 0 else None
    return Device(index, model, whole("memory_size"), capability, whole("core_count"))


def _device_work(plane: Plane, kind: str, index: int, rows: RankRows, room: Room) -> NDArray[np.int64]:
    """Add the work of a device; returns the correlation ids of all of it."""
    joined = [np.zeros(0, dtype=np.int64)]
    for line in plane.lines():
        if kind == "GPU":
            stream = STREAM.search(line.name)
            number = None if stream is None else int(stream[1])
        else:
            number = OPERATIONS.get(line.name)
        if number is None:
            if kind != "GPU" and line.name == STEPS:
                _add_steps(plane, line, rows, room)
            continue  # other lanes repeat the same time by module, scope or source line
        events = plane.events(line, DEVICE_STATS, room)
        names = [plane.event_names.get(each, "") for each in events.name.tolist()]
        correlation = events.whole_numbers("correlation_id")
        track = rows.device_tracks(np.full(len(names), index), np.full(len(names), number))
        copying = COPY_LANE.search(line.name) is not None
        kinds = np.array([_kind(name, copying) for name in names], dtype=np.int8)
        codes = np.array([rows.columns.names[_copy_name(name)] for name in names], dtype=np.int32)
        usable, at = rows.add(events.start_ns, events.end_ns, kinds, codes, track, correlation)
        _add_details(rows, events, kinds, usable, at)
        joined.append(correlation[correlation >= 0])
    return np.unique(np.concatenate(joined))


def _kind(name: str, copying: bool) -> EventKind:
    """The kind of a device's event; ``copying``: its stream does nothing but copy."""
    if name.startswith("Memset"):
        return EventKind.MEMSET
    return EventKind.MEMCPY if copying or name.startswith("Memcpy") or COPY.match(name) else EventKind.KERNEL


def _copy_name(name: str) -> str:
    """The name that a copy has in other profilers: ``Memcpy HtoD`` for ``MemcpyH2D`` and ``CopyHostToDevice``."""
    copy = COPY.match(name)
    if copy is None:
        return name
    return f"Memcpy {(copy['from'] or copy['source'])[0]}to{(copy['to'] or copy['target'])[0]}"


def _add_details(
    rows: RankRows, events: LineEvents, kinds: NDArray[np.int8], usable: NDArray[np.bool_], at: NDArray[np.int64]
) -> None:
    kept = kinds[usable]
    launched = [text for text, good in zip(events.texts("kernel_details"), usable.tolist(), strict=True) if good]
    shapes = [{match["name"]: match for match in GRID.finditer(text)} for text in launched]
    known = np.array([bool(shape) for shape in shapes], dtype=bool) & (kept == EventKind.KERNEL)
    places = np.flatnonzero(known).tolist()
    registers = [REGISTERS.search(launched[place]) for place in places]
    rows.add_details(
        "kernels",
        at[known],
        {
            "blocks": np.array([_count(shapes[place], "grid") for place in places], dtype=np.int64),
            "threads": np.array([_count(shapes[place], "block") for place in places], dtype=np.int64),
            "registers": np.array([float(each[1]) if each else np.nan for each in registers]),
        },
    )
    moved = np.isin(kept, [int(EventKind.MEMCPY), int(EventKind.MEMSET)])
    said = [
        f"{copy} {fill}"
        for copy, fill in zip(events.texts("memcpy_details"), events.texts("memset_details"), strict=True)
    ]
    sizes = [SIZE.search(text) for text, good in zip(said, usable.tolist(), strict=True) if good]
    counts = np.array([int(each[1]) if each else -1 for each in sizes], dtype=np.int64)
    rows.add_details("copies", at[moved], {"bytes": counts[moved]})


def _count(shape: dict[str, re.Match[str]], name: str) -> int:
    """Blocks of a grid or threads of a block; -1 where it is not known or absurd."""
    match = shape.get(name)
    product = int(match["x"]) * int(match["y"]) * int(match["z"]) if match else -1
    return product if product < 2**62 else -1


def _add_steps(plane: Plane, line: Line, rows: RankRows, room: Room) -> None:
    """Steps that the device marks by their number."""
    events = plane.events(line, (), room)
    names = [plane.event_names.get(each, "") for each in events.name.tolist()]
    marked = np.array([name.isdecimal() and len(name) < 10 for name in names], dtype=bool)
    track = rows.columns.tracks[(plane.name, STEPS)]
    numbers = [name for name, good in zip(names, marked.tolist(), strict=True) if good]
    codes = np.array([rows.columns.names[f"ProfilerStep#{each}"] for each in numbers], dtype=np.int32)
    tracks = np.full(len(codes), track, dtype=np.int32)
    rows.add(events.start_ns[marked], events.end_ns[marked], EventKind.ANNOTATION, codes, tracks)


def _host_lines(plane: Plane, correlations: dict[int, NDArray[np.int64]], room: Room) -> list[HostLine]:
    found: list[HostLine] = []
    for line in plane.lines():
        events = plane.events(line, HOST_STATS, room)
        names = [plane.event_names.get(each, "") for each in events.name.tolist()]
        calls = events.whole_numbers("correlation_id")
        devices = frozenset(index for index, own in correlations.items() if np.isin(calls[calls >= 0], own).any())
        found.append(HostLine(line, events, names, calls, devices))
    return found


def _add_host(
    rows: RankRows, threads: Sequence[HostLine], index: int, correlations: dict[int, NDArray[np.int64]]
) -> None:
    """Add host threads, but for what they launched on other devices."""
    others = [own for device, own in correlations.items() if device != index]
    elsewhere = np.concatenate(others) if others else np.zeros(0, dtype=np.int64)
    marks = any((each.events.whole_numbers("step_num") >= 0).any() for each in threads)
    for thread in threads:
        mine = ~np.isin(thread.correlation, elsewhere) | (thread.correlation < 0)
        steps = thread.events.whole_numbers("step_num")
        outer = _outermost(thread) if not marks else np.zeros(len(mine), dtype=bool)
        said = [_named(name, step) for name, step in zip(thread.names, steps.tolist(), strict=True)]
        kinds = np.array([_host_kind(name, step) for name, step in zip(thread.names, steps.tolist(), strict=True)])
        kinds = np.where(outer, EventKind.ANNOTATION, kinds).astype(np.int8)
        codes = np.array([rows.columns.names[name] for name in said], dtype=np.int32)
        key = (HOST_PLANE, thread.line.number)
        rows.columns.labels[key] = thread.line.name
        tracks = np.full(len(said), rows.columns.tracks[key], dtype=np.int32)
        events = thread.events
        if mine.any():
            rows.add(
                *(events.start_ns[mine], events.end_ns[mine], kinds[mine], codes[mine], tracks[mine]),
                thread.correlation[mine],
            )


def _host_kind(name: str, step: int) -> EventKind:
    if step >= 0:
        return EventKind.ANNOTATION
    if name.startswith("$"):
        return EventKind.PYTHON
    return EventKind.RUNTIME if CALL.match(name) else EventKind.OPERATOR


def _named(name: str, step: int) -> str:
    """Names as other profilers write them: ``ProfilerStep#5`` of a step mark, ``file.py(12): call`` of a frame."""
    if step >= 0:
        return f"ProfilerStep#{step}"
    frame = PYTHON_FRAME.match(name)
    return name.removeprefix("$") if frame is None else f"{frame['file']}({frame['line']}): {frame['function']}"


def _outermost(thread: HostLine) -> NDArray[np.bool_]:
    """The calls of jitted functions that are in no other such call."""
    calls = np.flatnonzero([name.startswith(JITTED) for name in thread.names])
    chosen = np.zeros(len(thread.names), dtype=bool)
    if len(calls):
        start, end = thread.events.start_ns[calls], thread.events.end_ns[calls]
        order = np.lexsort((-end, start))
        before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end[order])[:-1])
        chosen[calls[order[end[order] > before]]] = True
    return chosen


def _left_out(planes: Sequence[Plane], idle: Sequence[str]) -> str:
    """Planes without work that was read, in words."""
    odd = [plane.name for plane in planes if plane.name.startswith("/device:") and not DEVICE_PLANE.match(plane.name)]
    found = []
    if idle:
        found.append(f"no work is recorded on {_listed(idle)}")
    if odd:
        found.append(f"the planes {_listed(odd)} were not read")
    return "; ".join(found)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _excluded(excluded: Counter[str]) -> str:
    found = [(reason, count) for reason, count in sorted(excluded.items()) if count]
    return "; ".join(f"{count} event{'s' if count > 1 else ''} {reason} left out" for reason, count in found)
