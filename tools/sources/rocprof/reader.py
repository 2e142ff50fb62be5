"""A recording of rocprofv3 in JSON as traces, one for each process that used a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from tools.errors import InputError
from tools.run.kinds import EventKind
from tools.run.model import Device
from tools.sources.decompress import Readable, whole_content
from tools.sources.formats import Heard
from tools.sources.kineto.table import assemble
from tools.sources.nsys.rank_rows import RankRows
from tools.sources.options import LoadOptions
from tools.sources.rocprof.records import Agent, Call, Copy, Dispatch, Process, Record, Recording
from tools.sources.rocprof.source import ROCPROF
from tools.sources.trace_file import TraceFacts, TraceFile, TraceMetadata

LARGEST_BYTES = 2 << 30
GPU = 2  # of an agent's type
ADVICE = "record again with `rocprofv3 --hip-trace --kernel-trace --memory-copy-trace --marker-trace -f json`"
COPIES = {
    "MEMORY_COPY_HOST_TO_HOST": "Memcpy HtoH (Host -> Host)",
    "MEMORY_COPY_HOST_TO_DEVICE": "Memcpy HtoD (Host -> Device)",
    "MEMORY_COPY_DEVICE_TO_HOST": "Memcpy DtoH (Device -> Host)",
    "MEMORY_COPY_DEVICE_TO_DEVICE": "Memcpy DtoD (Device -> Device)",
}
Numbers = NDArray[np.int64]


def read_rocprof(path: Readable, digest: str, options: LoadOptions, heard: Heard | None = None) -> TraceFile:
    """The trace of the first process with the others; InputError where nothing in the file can be used."""
    data = whole_content(path, options.limits, LARGEST_BYTES)
    if heard is not None:
        heard(len(data) // 2, len(data))
    try:
        processes = msgspec.json.decode(data, type=Recording).processes
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is no whole recording of rocprofv3: {error}; {ADVICE}") from None
    place = path if isinstance(path, Path) else Path(path.name)
    read = [_trace(each, place, digest, len(data), options) for each in processes]
    traces = [each for each in read if each is not None]
    if not traces:
        raise InputError(f"{path}: is a recording of rocprofv3 without a kernel, a copy or a call of HIP; {ADVICE}")
    first, *others = (replace(each, digest=f"{digest}-{at}" if at else digest) for at, each in enumerate(traces))
    return replace(
        first, others=tuple(others), facts=replace(first.facts, others=tuple(each.digest for each in others))
    )


def _trace(process: Process, path: Path, digest: str, size: int, options: LoadOptions) -> TraceFile | None:
    rows = RankRows()
    gpus = [each for each in process.agents if each.type == GPU]
    index = {each.id.handle: _index(each, at) for at, each in enumerate(gpus)}
    records = process.buffer_records
    _add_kernels(rows, process, records.kernel_dispatch, index)
    _add_copies(rows, process, records.memory_copy, index)
    for calls in (records.hip_api, records.rccl_api):
        named = [process.strings.operation(each.kind, each.operation) for each in calls]
        _add_calls(rows, process, calls, named, EventKind.RUNTIME)
    said = {each.key: each.value for each in process.strings.marker_api if isinstance(each.value, str)}
    marks = [each for each in records.marker_api if said.get(each.correlation_id.internal)]
    marks = [each for each in marks if each.end_timestamp > each.start_timestamp]  # the others are moments
    names = [said[each.correlation_id.internal] for each in marks]
    _add_calls(rows, process, marks, names, EventKind.ANNOTATION)
    assembled = assemble(rows.columns, options.limits.span_days)
    if not len(assembled.table):
        return None
    devices = tuple(
        Device(index[each.id.handle], each.product_name or each.name, multiprocessors=each.cu_count or None)
        for each in gpus
        if index[each.id.handle] in rows.work_on
    )
    facts = TraceFacts(
        format=ROCPROF.name,
        origin_ns=assembled.origin_ns,
        epoch=False,
        metadata=TraceMetadata(devices=devices, host=process.metadata.node.hostname),
        status="complete",
        note="; ".join(_missing(process)),
        bytes=size,
        events=rows.columns.seen,
        groups=assembled.groups,
    )
    return TraceFile(path, digest, assembled.table, facts)


def _index(agent: Agent, at: int) -> int:
    """The number of a device among the devices, as the program counts them."""
    return agent.logical_node_type_id if agent.logical_node_type_id >= 0 else at


def _missing(process: Process) -> list[str]:
    records = process.buffer_records
    options = {
        "calls of HIP (`--hip-trace`)": records.hip_api,
        "copies (`--memory-copy-trace`)": records.memory_copy,
        "kernels (`--kernel-trace`)": records.kernel_dispatch,
    }
    lacking = [named for named, found in options.items() if not found]
    return [f"not recorded: {', '.join(lacking)}"] if lacking else []


def _times(records: Sequence[Record]) -> tuple[Numbers, Numbers, Numbers]:
    start = np.array([each.start_timestamp for each in records], dtype=np.int64)
    end = np.array([each.end_timestamp for each in records], dtype=np.int64)
    return start, end, np.array([each.correlation_id.internal for each in records], dtype=np.int64)


def _add_kernels(rows: RankRows, process: Process, kernels: Sequence[Dispatch], index: dict[int, int]) -> None:
    if not kernels:
        return
    symbols = {each.kernel_id: each.formatted_kernel_name or each.kernel_name for each in process.kernel_symbols}
    launched = [each.dispatch_info for each in kernels]
    device = np.array([index.get(each.agent_id.handle, 0) for each in launched], dtype=np.int64)
    streams = [each.stream_id or each.dispatch_info.queue_id for each in kernels]
    stream = np.array([0 if each is None else each.handle for each in streams], dtype=np.int64)
    named = [symbols.get(each.kernel_id) or f"kernel {each.kernel_id}" for each in launched]
    codes = np.array([rows.columns.names[name] for name in named], dtype=np.int32)
    start, end, correlation = _times(kernels)
    track = rows.device_tracks(device, stream)
    usable, at = rows.add(start, end, EventKind.KERNEL, codes, track, correlation)
    threads = np.array([each.workgroup_size.product for each in launched], dtype=np.int64)
    items = np.array([each.grid_size.product for each in launched], dtype=np.int64)
    known = (threads > 0) & (items > 0)
    blocks = np.where(known, -(-items // np.where(known, threads, 1)), -1)
    shared = np.array([each.group_segment_size for each in launched], dtype=np.float64)
    sizes = {"threads": threads[usable], "shared_bytes": shared[usable]}
    rows.add_details("kernels", at, {"blocks": blocks[usable], **sizes})


def _add_copies(rows: RankRows, process: Process, copies: Sequence[Copy], index: dict[int, int]) -> None:
    if not copies:
        return
    named = [process.strings.operation(each.kind, each.operation) for each in copies]
    codes = np.array([rows.columns.names[COPIES.get(name, f"Memcpy {name}")] for name in named], dtype=np.int32)
    ends = [(each.dst_agent_id, each.src_agent_id) for each in copies]
    device = np.array([_device(pair, index) for pair in ends], dtype=np.int64)
    stream = np.array([0 if each.stream_id is None else each.stream_id.handle for each in copies], dtype=np.int64)
    start, end, correlation = _times(copies)
    usable, at = rows.add(start, end, EventKind.MEMCPY, codes, rows.device_tracks(device, stream), correlation)
    rows.add_details("copies", at, {"bytes": np.array([each.bytes for each in copies], dtype=np.int64)[usable]})


def _device(ends: Sequence[object], index: dict[int, int]) -> int:
    """The device that a copy goes to, else comes from."""
    handles = [getattr(each, "handle", None) for each in ends]
    return next((index[each] for each in handles if each in index), 0)


def _add_calls(rows: RankRows, process: Process, calls: Sequence[Call], named: list[str], kind: EventKind) -> None:
    if not calls:
        return
    keys = [(process.metadata.pid, each.thread_id) for each in calls]
    track = np.array([rows.columns.tracks[key] for key in keys], dtype=np.int32)
    codes = np.array([rows.columns.names[name] for name in named], dtype=np.int32)
    start, end, correlation = _times(calls)
    linked = correlation if kind == EventKind.RUNTIME else None
    rows.add(start, end, kind, codes, track, linked)
