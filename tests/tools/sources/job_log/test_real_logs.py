"""Figures of real logs, held against the lines that they stand in and what their authors state."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tools.run.recorded.job_log import JobLog
from tools.sources.job_log.reader import read_job_log


def log_of(traces: Path, name: str) -> tuple[JobLog, list[str]]:
    path = traces / "logs" / name
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    found = read_job_log(path).log
    assert found is not None
    data = path.read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8", "replace")
    return found, text.split("\n")


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("megatron_gpt2_206B_tp4_pp64.out", 6),
        ("megatron_nccl_64xv100.out.gz", 4),
        ("megatron_deepspeed_3d_64xv100.out.gz", 49),
    ],
)
def test_every_iteration_of_megatron_stands_in_its_line(traces: Path, name: str, steps: int) -> None:
    log, lines = log_of(traces, name)
    stated = [at for at, line in enumerate(lines, start=1) if "elapsed time per iteration (ms)" in line]
    assert log.steps["line"].tolist() == stated
    assert len(stated) == steps
    for row in log.steps.to_dict("records"):
        line = lines[row["line"] - 1]
        assert re.search(rf"iteration\s+{row['step']}/", line)
        assert f"elapsed time per iteration (ms): {row['wall_ms']:.1f} " in line
    for timer in log.timers.to_dict("records"):
        assert f"{timer['name']}: {timer['min_ms']:.2f}" in lines[timer["line"] - 1]


def test_the_206_billion_parameter_run_takes_6_7_s_per_iteration(traces: Path) -> None:
    log, _ = log_of(traces, "megatron_gpt2_206B_tp4_pp64.out")
    assert log.steps["wall_ms"].iloc[1:].mean() == pytest.approx(6700, rel=0.01)  # the authors' 6.7 s
    assert log.span == 10
    assert [log.whole(name) for name in ("world_size", "pipeline_model_parallel_size")] == [256, 64]
    assert [log.whole(name) for name in ("global_batch_size", "micro_batch_size")] == [4, 1]


def test_nccl_tests_table_and_its_average(traces: Path) -> None:
    log, lines = log_of(traces, "nccl_tests_all_reduce_2xa100.log.gz")
    assert len(log.comm_tests) == 22
    assert log.comm_tests["busbw_gb_per_s"].mean() == pytest.approx(178.078, abs=0.002)
    for row in log.comm_tests.to_dict("records"):
        assert f"{row['busbw_gb_per_s']:.2f}" in lines[row["line"] - 1]
    (joined,) = log.nccl.communicators
    assert (joined.channels, joined.ranks) == (24, (0, 1))
    assert "24 coll channels" in lines[joined.channels_line - 1]


def test_nccl_lines_of_64_ranks(traces: Path) -> None:
    log, lines = log_of(traces, "megatron_nccl_64xv100.out.gz")
    assert log.nccl.lines > 4000
    assert {each.value for each in log.nccl.network} == {"IB"}
    world = next(each for each in log.nccl.communicators if each.size == 64)
    assert world.ranks == tuple(range(64))
    assert world.channels == 4
    assert "4 coll channels" in lines[world.channels_line - 1]
    assert all("via NET/IB" in lines[each.transport_lines["NET/IB"] - 1] for each in (world,))


def test_the_bar_of_hf_trainer_agrees_with_the_run_time_that_it_states(traces: Path) -> None:
    log, lines = log_of(traces, "hf_deepspeed_32xv100.out.gz")
    assert log.steps["wall_ms"].sum() / 1e3 == pytest.approx(895.93, abs=1.5)  # train_runtime; whole seconds in the bar
    assert len(log.steps) == 8
    assert "8/8 [14:5" in lines[log.steps["line"].iloc[-1] - 1]
    stated = {name: float(log.settings[name].value) for name in ("train_runtime", "train_samples_per_second")}
    assert stated == {"train_runtime": pytest.approx(895.93, abs=0.1), "train_samples_per_second": 1.116}
