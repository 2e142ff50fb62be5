"""A log next to traces with which it disagrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_communication import NCCL
from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.sources.load import load_run

WORLD = "using world size: {}, data-parallel-size: 2, tensor-model-parallel size: 1, pipeline-model-parallel size: 1\n"


def notes(folder: Path, log: str, step_ms: float = 100.0, host: str = "node1.cluster") -> list[str]:
    """Notes about the log of a run of two ranks, of which rank 0 was traced for three steps."""
    steps = [
        span(f"ProfilerStep#{at}", 1e3 * step_ms * at + 1, 1e3 * step_ms - 1, "user_annotation") for at in range(3)
    ]
    work = [span("aten::mm", 1e3 * step_ms * at + 10, 90) for at in range(3)]
    name = f"{host}_77.1700000000000.pt.trace.json"  # as tensorboard_trace_handler names it
    write_trace(folder / name, [*steps, *work], distributedInfo=rank_info(0))
    (folder / "job.out").write_text(log)
    return [note for note in load_run([folder]).notes if note.startswith("job.out ")]


STEPS = tuple((step, 100.0) for step in range(1, 21))


def printed(step_ms: float) -> str:
    return megatron(*((step, step_ms + step % 3) for step in range(1, 21)))


def test_a_log_of_the_same_run_is_not_doubted(tmp_path: Path) -> None:
    assert notes(tmp_path, WORLD.format(2) + printed(60.0) + NCCL) == []


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (WORLD.format(16) + printed(100.0), "is of a job of 16 ranks (the traces: of 2 ranks), so it is of another run and left out"),
        (megatron(*STEPS, prefix="[rank3]:"), "is of a job with a rank 3 (the traces: of a job of 2 ranks), so it is of another run and left out"),
        (printed(1000.0), "prints steps of 1001 ms, those of the traces take 100 ms"),
        (printed(20.0), "prints steps of 21 ms, those of the traces take 100 ms"),
    ],
    ids=["ranks", "rank", "longer", "shorter"],
)
def test_another_size_and_step_times_that_no_profiler_explains_are_noted(tmp_path: Path, log: str, said: str) -> None:
    (note,) = notes(tmp_path, log)
    assert note.startswith(f"job.out {said}")


def test_hosts_that_are_none_of_the_traces_are_noted(tmp_path: Path) -> None:
    (note,) = notes(tmp_path, NCCL, host="gpu-7")
    assert note.startswith("job.out holds NCCL lines of node1, the traces are of gpu-7")
