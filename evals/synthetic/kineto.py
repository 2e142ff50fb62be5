"""Writes what a simulated rank recorded as a Kineto trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from evals.synthetic.items import ACCELERATORS, Call, Collective, Work
from evals.synthetic.simulate import RankClock, Row
from evals.synthetic.spec import SyntheticSpec

BASE_NS = 1_700_000_000_000_000_000
ORIGIN_US = 1_000_000.0
HOST = {"main": 0, "autograd": 1}
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
KEPT_OF_CUT_FILE = 0.6
LISTED_RANKS = 30


def write_trace(clock: RankClock, spec: SyntheticSpec, folder: Path, skew_us: float) -> Path:
    """Writes one rank's trace and gives its path; with ``tail`` omitted the file ends in the middle."""
    streams = _streams(clock)
    events = [_event(row, clock, spec, streams, skew_us) for row in clock.rows if not _omitted(row, spec)]
    document = {
        "schemaVersion": 1,
        "deviceProperties": [] if "device" in spec.omit else [_properties(spec)],
        "distributedInfo": {"backend": "nccl", "rank": clock.rank, "world_size": spec.ranks},
        "record_shapes": int("shapes" not in spec.omit),
        "with_stack": int(spec.stacks),
        "baseTimeNanoseconds": BASE_NS,
        **spec.metadata,
        "traceEvents": [*_names(clock), *events],
    }
    if spec.ranks == 1:
        del document["distributedInfo"]
    text = json.dumps(document).encode()
    if "tail" in spec.omit:
        text = text[: int(len(text) * KEPT_OF_CUT_FILE)]
    path = folder / f"rank{clock.rank}.pt.trace.json.gz"
    path.write_bytes(gzip.compress(text, compresslevel=1, mtime=0))
    return path


def _omitted(row: Row, spec: SyntheticSpec) -> bool:
    on_device = row.category in DEVICE_CATEGORIES
    if on_device or row.category == "cuda_runtime":
        return "device" in spec.omit or (not on_device and "host" in spec.omit)
    return "host" in spec.omit or ("step_marks" in spec.omit and row.name.startswith("ProfilerStep#"))


def _properties(spec: SyntheticSpec) -> dict[str, Any]:
    device = ACCELERATORS[spec.device]
    major, minor = device.capability
    return {
        "id": 0,
        "name": device.name,
        "totalGlobalMem": device.memory_bytes,
        "computeMajor": major,
        "computeMinor": minor,
        "warpSize": 32,
        "numSms": device.multiprocessors,
    }


def _names(clock: RankClock) -> list[dict[str, Any]]:
    host = process_number(clock.rank)
    named = [("process_name", pid, 0, {"name": "python"}) for pid in (host, 0)]
    named.append(("process_labels", 0, 0, {"labels": "GPU 0"}))
    named += [
        ("thread_name", host, host + tid, {"name": f"thread {host + tid} ({name})"}) for name, tid in HOST.items()
    ]
    common = {"ph": "M", "ts": ORIGIN_US}
    return [{"name": name, **common, "pid": pid, "tid": tid, "args": args} for name, pid, tid, args in named]


def process_number(rank: int) -> int:
    """The process that a rank's trace is of; the number behind it is that of its autograd thread."""
    return 4000 + 20 * rank


def _streams(clock: RankClock) -> dict[str, int]:
    """Numbers of the device streams by track."""
    groups = sorted({row.track for row in clock.rows if row.track.startswith("group:")})
    return {"compute": 7} | {track: 20 + place for place, track in enumerate(groups)}


def _event(row: Row, clock: RankClock, spec: SyntheticSpec, streams: dict[str, int], skew_us: float) -> dict[str, Any]:
    on_device = row.category in DEVICE_CATEGORIES
    stream = streams.get(row.track, -1)
    return {
        "ph": "X",
        "cat": row.category,
        "name": row.name,
        "pid": 0 if on_device else process_number(clock.rank),
        "tid": stream if on_device else process_number(clock.rank) + HOST[row.track],
        "ts": round(ORIGIN_US + row.start_us + skew_us, 3),
        "dur": round(row.us, 3),
        "args": _args(row, spec, stream),
    }


def _args(row: Row, spec: SyntheticSpec, stream: int) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": row.external} if row.external else {}
    if row.correlation:
        args["correlation"] = row.correlation
    if row.category in DEVICE_CATEGORIES:
        args |= {"device": 0, "context": 1, "stream": stream}
    match row.item:
        case Call(dims=dims, types=types) if dims and "shapes" not in spec.omit:
            args |= {"Input Dims": [list(shape) for shape in dims], "Input type": list(types)}
        case Work(bytes=size) if size >= 0:
            args |= {"bytes": size, "memory bandwidth (GB/s)": size / max(row.us, 0.1) / 1e3}
        case Work(blocks=blocks):
            args |= {"grid": [blocks, 1, 1], "block": [256, 1, 1], "registers per thread": 64, "shared memory": 0}
        case Collective() if "collective_arguments" not in spec.omit:
            args |= _collective(row.item)
    return args


def _collective(item: Collective) -> dict[str, Any]:
    listed = ", ".join(map(str, item.group[:LISTED_RANKS]))  # the profiler cuts a long list short
    return {
        "Collective name": item.kind,
        "In msg nelems": item.elements,
        "Out msg nelems": item.elements,
        "Group size": len(item.group),
        "dtype": item.dtype,
        "Process Group Name": "0" if item.description == "default_pg" else f"{item.description}:{item.group[0]}",
        "Process Group Description": item.description,
        "Process Group Ranks": f"[{listed}, ...]" if len(item.group) > LISTED_RANKS else f"[{listed}]",
    }
