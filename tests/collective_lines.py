"""Output of NCCL Inspector and NCCL RAS as tests write it, by the schema of NVIDIA/nccl."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

MIB = 1 << 20


def inspector_line(
    member: int,
    time_us: float,
    sequence: int,
    *,
    communicator: str = "0x7f8c496ae9f661",
    ranks: int = 4,
    size: int = 4 * MIB,
    busbw: float | None = None,
    process: int | None = None,
    timing: str = "kernel_gpu",
) -> str:
    """One all-reduce on one rank; without ``busbw`` that of its time: 2 (n - 1) / n of the bytes."""
    process = member if process is None else process
    algorithm = size / time_us / 1e3
    return json.dumps(
        {
            "header": {"id": communicator, "rank": member, "n_ranks": ranks, "nnodes": 1},
            "metadata": {
                "inspector_output_format_version": "v4.0",
                "git_rev": "",
                "rec_mechanism": "profiler_plugin",
                "dump_timestamp_us": 1748030377748202,
                "hostname": f"node{process // 2}",
                "pid": 100 + process,
            },
            "coll_perf": {
                "coll": "AllReduce",
                "coll_sn": sequence,
                "coll_msg_size_bytes": size,
                "coll_exec_time_us": time_us,
                "coll_timing_source": timing,
                "coll_algobw_gbs": algorithm,
                "coll_busbw_gbs": algorithm * 2 * (ranks - 1) / ranks if busbw is None else busbw,
            },
        }
    )


def world_lines(times_us: Mapping[int, Sequence[float]], timing: str = "kernel_gpu") -> dict[int, list[str]]:
    """The lines of each rank of one communicator of all, by the time of each collective."""
    count = len(times_us)
    return {
        rank: [inspector_line(rank, time, at, ranks=count, timing=timing) for at, time in enumerate(times)]
        for rank, times in times_us.items()
    }


def write_lines(folder: Path, lines: Mapping[int, Sequence[str]]) -> Path:
    """The output of each process in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for process, own in lines.items():
        (folder / f"node{process // 2}-pid{100 + process}.log").write_text("".join(f"{line}\n" for line in own))
    return folder


def ras_rank(rank: int, calls: int, error: int = 0) -> dict[str, object]:
    """A rank that answers and has called so many all-reduces."""
    status = {"init_state": 0, "async_error": error, "finalize_called": False, "abort_flag": False}
    counts = {"Broadcast": 1, "AllReduce": calls}
    process = {"host": f"10.0.0.{rank // 2}", "pid": 100 + rank, "cuda_dev": rank % 2, "nvml_dev": rank % 2}
    return {"rank": rank, **process, "status": status, "collective_counts": counts}


def ras_lost(rank: int, dead: bool = False) -> dict[str, object]:
    """A rank that does not answer."""
    process = {"host": f"10.0.0.{rank // 2}", "pid": 100 + rank, "cuda_dev": rank % 2, "nvml_dev": rank % 2}
    return {"rank": rank, **process, "status": {"unresponsive": not dead, "considered_dead": dead}}


def ras_answer(
    ranks: Sequence[Mapping[str, object]],
    lost: Sequence[Mapping[str, object]] = (),
    at: str = "2026-03-01 10:00:00",
) -> str:
    """An answer about one communicator."""
    communicator = {
        "hash": "0xae94423cfbb2ef4a",
        "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
        "size": len(ranks) + len(lost),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(lost),
        "ranks": list(ranks),
        "missing_ranks": list(lost),
    }
    return json.dumps({"nccl_version": "2.29.1", "timestamp": at, "communicators": [communicator]}, indent=1)
