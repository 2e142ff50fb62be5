"""Ranks of logs by the names of their files: which names hold one, and when these are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.sources.load import load_run

STEPS = "".join(f"step {step} step_time: {{}} ms\n" for step in range(20))


def ranks(folder: Path, *names: str) -> list[int]:
    """The ranks of the steps of logs with these names, each with steps of another length."""
    for at, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(STEPS.replace("{}", str(100 + 10 * at)))
    log = load_run([folder]).job_log
    assert log is not None
    return sorted(log.steps["rank"].unique().tolist())


@pytest.mark.parametrize(
    "names",
    [
        ("rank0.log", "rank1.log"),
        ("train_rank0.log", "train_rank1.log"),
        ("rank_0/train.log", "rank_1/train.log"),
        ("global_rank_0.log", "global_rank_1.log"),
    ],
)
def test_names_with_the_ranks_of_a_job_give_them(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert ranks(tmp_path, *names) == [0, 1]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("lora_rank0.log", "lora_rank1.log"), id="of matrices"),
        pytest.param(("tp_rank0.log", "tp_rank1.log"), id="of a group"),
        pytest.param(("tensor_parallel_rank0.log", "tensor_parallel_rank1.log"), id="of a group, in words"),
        pytest.param(("local_rank0.log", "local_rank1.log"), id="in a node"),
        pytest.param(("rank8.log", "rank16.log"), id="not from 0 on"),
        pytest.param(("node0_rank0.log", "node0_rank1.log", "node1_rank0.log", "node1_rank1.log"), id="twice"),
    ],
)
def test_other_names_give_none(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert ranks(tmp_path, *names) == [0]
