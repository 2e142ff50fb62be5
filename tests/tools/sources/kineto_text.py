"""Writes small Kineto traces for the tests of the reader."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

JsonEvent = dict[str, Any]
HOST, THREAD = 100, 100


def span(name: str, ts: float | int | str, dur: float | int | str, cat: str = "cpu_op", **more: Any) -> JsonEvent:  # noqa: ANN401
    """A complete event on the host's main thread."""
    event: JsonEvent = {"ph": "X", "cat": cat, "name": name, "pid": HOST, "tid": THREAD, "ts": ts, "dur": dur}
    return event | more


def kernel(name: str, ts: float, dur: float, correlation: int, stream: int = 7, **args: Any) -> JsonEvent:  # noqa: ANN401
    """A kernel on device 0."""
    attributes = {"device": 0, "stream": stream, "correlation": correlation} | args
    return span(name, ts, dur, "kernel", pid=0, tid=stream, args=attributes)


def launch(ts: float, dur: float, correlation: int, **more: Any) -> JsonEvent:  # noqa: ANN401
    """The host call that launches the device work of that correlation id."""
    return span("cudaLaunchKernel", ts, dur, "cuda_runtime", args={"correlation": correlation}, **more)


def trace_text(events: Sequence[Mapping[str, Any]], indent: int | None = None, **members: Any) -> str:  # noqa: ANN401
    """The text of a trace with the given metadata members."""
    whole = {"schemaVersion": 1, **members, "traceEvents": list(events), "traceName": "t.json"}
    return json.dumps(whole, indent=indent)


def write_trace(path: Path, events: Sequence[Mapping[str, Any]], **members: Any) -> Path:  # noqa: ANN401
    """A trace file, compressed when its name ends in .gz."""
    text = trace_text(events, **members).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def rank_info(rank: int, world_size: int = 2, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """A distributedInfo member."""
    return {"backend": "nccl", "rank": rank, "world_size": world_size} | more
