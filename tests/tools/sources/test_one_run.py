"""Several sources in one folder: one run, or one of them of another run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flight_dumps import START_NS, Made, dump
from tests.flight_dumps import write as write_dumps
from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_communication import NCCL
from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.run.model import Run
from tools.run.recorded.step_times import step_times
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
        (
            WORLD.format(16) + printed(100.0),
            "is of a job of 16 ranks (the traces: of 2 ranks), so it is of another run and left out",
        ),
        (
            megatron(*STEPS, prefix="[rank3]:"),
            "is of a job with a rank 3 (the traces: of a job of 2 ranks), so it is of another run and left out",
        ),
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


SAMPLES = """\
timestamp,gpu_index,utilization_gpu_percent
2025-09-16T{}:20:00.000Z,0, 97
2025-09-16T{}:20:02.000Z,0, 98
"""


def folder_with(folder: Path, *, dumps_of: int, base_ns: int = START_NS, hour: str = "05") -> Run:
    """Traces of two ranks from 2025-09-16 05:20:00 UTC, with dumps of a job of that size, samples of that hour, a log
    of the same run, and one of 16 ranks."""
    for rank in range(2):
        steps = [span(f"ProfilerStep#{at}", 1e6 * at + 1, 1e6 - 1, "user_annotation") for at in range(3)]
        work = [span("aten::mm", 1e6 * at + 10, 90) for at in range(3)]
        info = {"distributedInfo": rank_info(rank), "baseTimeNanoseconds": base_ns}
        write_trace(folder / f"rank{rank}.json", [*steps, *work], **info)
    write_dumps(folder / "dumps", {rank: dump([Made()], {"0": range(dumps_of)}) for rank in range(dumps_of)})
    (folder / "job.out").write_text(WORLD.format(2) + megatron(*((step, 900.0) for step in range(1, 21))))
    (folder / "old.out").write_text(WORLD.format(16) + megatron(*((step, 900.0) for step in range(1, 41))))
    (folder / "gpus.csv").write_text(SAMPLES.format(hour, hour))
    return load_run([folder])


def test_a_folder_with_everything_is_one_run(tmp_path: Path) -> None:
    run = folder_with(tmp_path, dumps_of=2)
    assert run.collectives is not None
    assert run.counters is not None
    assert run.job_log is not None
    assert run.job_log.whole("world_size") == 2
    assert run.job_log.steps["file"].unique().tolist() == [run.job_log.files.index("job.out")]
    status = {source.path.name: source.status for source in run.sources}
    assert {name for name, each in status.items() if each == "excluded"} == {"old.out"}
    assert len(status) == 7
    assert [note for note in run.notes if "another run" in note or "skipped" in note] == [
        "old.out: it is of a job of 16 ranks, the traces are of one of 2, so it is of another run and left out"
    ]


def test_step_times_are_listed_with_the_better_source_first(tmp_path: Path) -> None:
    found = step_times(folder_with(tmp_path, dumps_of=2))
    assert [(each.source, each.median_ms, each.count) for each in found] == [
        ("job_log", 900.0, 20),
        ("traces", pytest.approx(1000.0, rel=1e-5), 6),
    ]


def test_dumps_of_a_job_of_another_size_are_left_out(tmp_path: Path) -> None:
    run = folder_with(tmp_path, dumps_of=4)
    assert run.collectives is None
    assert (
        "the flight recorder's dumps are of a job of 4 ranks (the traces: of 2 ranks), so they are of "
        "another run and left out"
    ) in run.notes
    assert {each.status for each in run.sources if each.format == "flight recorder"} == {"excluded"}


@pytest.mark.parametrize(("days", "kept"), [(59, True), (61, False)])
def test_dumps_that_are_further_away_than_a_training_lasts_are_left_out(tmp_path: Path, days: int, kept: bool) -> None:
    run = folder_with(tmp_path, dumps_of=2, base_ns=START_NS - days * 86_400 * 10**9)
    assert (run.collectives is not None) is kept


def test_samples_of_another_hour_are_noted(tmp_path: Path) -> None:
    run = folder_with(tmp_path, dumps_of=2, hour="08")
    (note,) = [note for note in run.notes if note.startswith("gpus.csv was sampled ")]
    assert note == (
        "gpus.csv was sampled 3.0 hours after the traced steps: it shows another time of the run, or another run"
    )


def test_the_log_of_another_job_is_left_out_without_traces_too(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(WORLD.format(2) + megatron(*((step, 900.0) for step in range(1, 21))))
    (tmp_path / "old.out").write_text(WORLD.format(2) + megatron(*((step, 9000.0) for step in range(1, 11))))
    run = load_run([tmp_path])
    assert run.job_log is not None
    assert run.job_log.steps["wall_ms"].unique().tolist() == [900.0]
    (note,) = [note for note in run.notes if "another run" in note]
    assert note.startswith("old.out: it is of a job whose steps take 9000 ms, those of job.out take 900 ms")
