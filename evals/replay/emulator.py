"""An emulated data-parallel job of several hosts with clocks of their own, as traces, and the truth behind it.

It shares no code with the replay: ranks play their steps on one true clock, a ring all-reduce is played chunk by chunk,
and each rank writes down what its host's clock shows.

* A step is ``BUCKETS`` pairs of a kernel and an all-reduce on another stream, and an update after the last.
* In step ``k`` of a ring a rank receives from its neighbour what that one had after ``k - 1``; the collective's kernel
  starts when its own rank is ready, mostly before its neighbour sends: an early receive.
* Links between hosts take ``cross`` times as long as those inside, and clocks of hosts are off by up to ``clock_us``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BASE_NS = 1_700_000_000_000_000_000
ORIGIN_US = 1_000_000.0  # of the first step on the true clock
BUCKETS = 4
ELEMENTS = 6_250_000  # of one bucket, 4 bytes each
KERNEL_US = 1500.0
UPDATE_US = 800.0
CHUNK_US = 40.0  # one step of the ring
JITTER = 0.1  # of kernels and chunks, standard deviation
LAUNCH_US = 8.0


@dataclass(frozen=True, eq=False)
class Emulated:
    """Traces in ``folder``; offsets that make up for the clocks, relative to rank 0; and the true mean step."""

    folder: Path
    offset_us: NDArray[np.float64]
    step_ms: float


def emulate(
    folder: Path,
    ranks: int = 16,
    hosts: int = 4,
    steps: int = 6,
    clock_us: float = 5000.0,
    slow: float = 1.0,
    cross: float = 1.0,
    seed: int = 0,
    hosts_named: bool = True,
) -> Emulated:
    """Write the traces of the job; rank 1 computes ``slow`` times as long as the others.

    ``hosts_named``: file names hold the hosts, as those of PyTorch's TensorBoard handler do.
    """
    random = np.random.default_rng(seed)
    host_clock = random.uniform(-clock_us, clock_us, hosts)
    clock = host_clock[np.arange(ranks) * hosts // ranks]
    events: list[list[dict[str, Any]]] = [[] for _ in range(ranks)]
    pace = np.ones(ranks)
    pace[1 % ranks] = slow
    now = np.full(ranks, ORIGIN_US)
    link_us = np.where(np.arange(ranks) * hosts % ranks < hosts, cross, 1.0) * CHUNK_US  # into each rank
    for step in range(steps):
        begun = now.copy()
        compute = now + LAUNCH_US
        link = now.copy()
        for bucket in range(BUCKETS):
            taken = KERNEL_US * pace * np.maximum(random.normal(1, JITTER, ranks), 0.3)
            correlation = 1 + 2 * (step * (BUCKETS + 1) + bucket)
            call = begun + 20.0 * bucket
            for rank in range(ranks):
                events[rank] += _launched("backward_gemm", 7, call[rank], compute[rank], taken[rank], correlation)
            compute = compute + taken
            ready = np.maximum(compute, link) + 2.0
            ended = ring(ready, link_us, random)
            for rank in range(ranks):
                events[rank] += _launched(
                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                    20,
                    call[rank] + 10.0,
                    ready[rank],
                    ended[rank] - ready[rank],
                    correlation + 1,
                    ranks,
                )
            link = ended
        taken = UPDATE_US * np.maximum(random.normal(1, JITTER, ranks), 0.3)
        start = np.maximum(compute, link) + 2.0
        for rank in range(ranks):
            name = "update"
            call_us = begun[rank] + 20.0 * BUCKETS
            events[rank] += _launched(
                name, 7, call_us, start[rank], taken[rank], 1 + 2 * (step * (BUCKETS + 1) + BUCKETS)
            )
            wait = begun[rank] + 20.0 * (BUCKETS + 1)
            end = start[rank] + taken[rank] + 3.0
            events[rank].append(_event("cuda_runtime", "cudaDeviceSynchronize", wait, end - wait))
            events[rank].append(_event("user_annotation", f"ProfilerStep#{step}", begun[rank], end + 4.0 - begun[rank]))
            now[rank] = end + 5.0
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        host = f"host{rank * hosts // ranks}_{4000 + rank}.1700000000000"
        name = f"{host if hosts_named else f'rank{rank}'}.pt.trace.json"
        _write(folder / name, rank, ranks, events[rank], float(clock[rank]))
    return Emulated(folder, clock[0] - clock, float(now.max() - ORIGIN_US) / 1e3 / steps)


def ring(
    ready_us: NDArray[np.float64], link_us: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    """When each rank has finished a ring all-reduce of ``2 (n - 1)`` rounds; in each it receives a chunk."""
    ranks = len(ready_us)
    had = ready_us.copy()
    for _ in range(2 * (ranks - 1)):
        chunk = link_us * np.maximum(random.normal(1, JITTER, ranks), 0.3)
        had = np.maximum(had, np.roll(had, 1)) + chunk
    return had


def _launched(
    name: str, stream: int, call_us: float, start_us: float, length_us: float, correlation: int, group: int = 0
) -> list[dict[str, Any]]:
    call = _event("cuda_runtime", "cudaLaunchKernel", call_us, 5.0)
    call["args"] = {"correlation": correlation}
    kernel = _event("kernel", name, start_us, length_us)
    kernel |= {"pid": 0, "tid": stream}
    kernel["args"] = {
        "correlation": correlation,
        "device": 0,
        "stream": stream,
        "grid": [80, 1, 1],
        "block": [256, 1, 1],
    }
    if group:
        kernel["args"] |= {
            "Collective name": "allreduce",
            "In msg nelems": ELEMENTS,
            "Out msg nelems": ELEMENTS,
            "Group size": group,
            "dtype": "Float",
            "Process Group Name": "0",
            "Process Group Ranks": f"[{', '.join(map(str, range(group)))}]",
        }
    return [call, kernel]


def _event(category: str, name: str, start_us: float, length_us: float) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 4000, "tid": 4000, "ts": start_us, "dur": length_us}


def _write(file: Path, rank: int, ranks: int, events: list[dict[str, Any]], clock_us: float) -> None:
    shown = [event | {"ts": round(event["ts"] + clock_us, 3), "dur": round(event["dur"], 3)} for event in events]
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "computeMajor": 8}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks},
        "baseTimeNanoseconds": BASE_NS,
        "traceEvents": shown,
    }
    file.write_text(json.dumps(document))
