"""Logs as tests write them."""

from __future__ import annotations

from pathlib import Path

from tools.run.recorded.job_log import JobLog
from tools.sources.job_log.reader import read_job_log


def read(folder: Path, text: str | bytes, name: str = "job.out") -> JobLog:
    """The record of a log with this content."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = read_job_log(path).log
    assert found is not None
    return found


def megatron(*steps: tuple[int, float], prefix: str = "") -> str:
    """Iteration lines of Megatron-LM: number and ms."""
    return "".join(
        f"{prefix} iteration {step:8d}/    1000 | consumed samples: {step * 4:12d} | elapsed time per iteration (ms): "
        f"{wall_ms:.1f} | learning rate: 1.000E-04 | global batch size:     4 | loss scale: 16384.0 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        for step, wall_ms in steps
    )
