"""How many ranks and epochs a job has, of which no step line names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.report.records import recorded_record
from tests.tools.sources.job_log.logs import megatron
from tools.run.model import Run
from tools.sources.job_log.reader import read_job_log
from tools.sources.load import load_run

STEPS = megatron(*((at, 400.0) for at in range(1, 31)))
NCCL = "node0:12:13 [0] NCCL INFO comm 0x5581 rank 0 nranks 8 cudaDev 0 busId 1b000 commId 0xab - Init COMPLETE\n"


def run_of(folder: Path, text: str) -> Run:
    (folder / "train.log").write_text(text)
    return load_run([folder / "train.log"])


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-23 11:02:03,123] [INFO] [launch.py:163:main] dist_world_size=16",
        "Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16",
        "All distributed processes registered. Starting with 16 processes",
        "Num processes: 16",
        "[11/17 15:16:13] detectron2 INFO: Rank of current process: 0. World size: 16",
        "env: WORLD_SIZE=16 RANK=0",
        '{"world_size": 16, "backend": "nccl"}',
        "using world size: 16, data-parallel-size: 4, tensor-model-parallel size: 2, pipeline-model-parallel size: 2",
        "[2026-11-24 18:41:00,389][fairseq_cli.train][INFO] - training on 16 devices (GPUs/TPUs)",
        "INFO: Namespace(model='deeplabv3', workers=8, num_gpus=16, distributed=True, epochs=3)",
        "+ torchrun --nproc_per_node 8 --nnodes=2 train.py --lr 0.1",
        "+ python -m bind_launch --nsockets_per_node 2 --nproc_per_node=16 train.py",
    ],
)
def test_the_number_of_ranks_is_that_which_a_line_states(tmp_path: Path, line: str) -> None:
    run = run_of(tmp_path, f"{line}\n{STEPS}")
    assert run.layout.world_size == 16
    assert run.job_log is not None
    assert not run.job_log.ranks_stated
    assert any("the job has 16 ranks by line 1" in note for note in run.notes)


@pytest.mark.parametrize(
    "line",
    [
        "tensor_model_parallel_world_size=4",
        "local_world_size: 4",
        "WORLD_SIZE=abc",
        "my_world_size=4",
        "    # with world_size=1 do it here",
        "    def __init__(self, params, lr=0.02, rank=0, world_size=1):",
        "parser.add_argument('--world_size', 8)",
        "assert world_size == 8",
        "Namespace(model='a', num_gpus=2, distributed=False, epochs=3)",
        "+ torchrun --nproc_per_node 8 --nnodes $NNODES train.py",
        "+ torchrun --nproc_per_node gpu train.py",
        "GPU number: 2",
        "training on 16 cities",
    ],
)
def test_sizes_of_parts_of_the_job_are_not_its_number_of_ranks(tmp_path: Path, line: str) -> None:
    assert run_of(tmp_path, f"{line}\n{STEPS}").layout.world_size is None


def test_nccls_largest_communicator_is_a_lower_bound(tmp_path: Path) -> None:
    run = run_of(tmp_path, NCCL + STEPS)
    recorded = recorded_record(run)
    assert recorded is not None
    assert (recorded.ranks_stated, recorded.least_ranks) == (False, 8)
    assert run.layout.world_size is None
    assert any("8 ranks or more, those of NCCL's largest communicator (line 1)" in note for note in run.notes)


def test_steps_with_a_rank_are_those_of_their_ranks(tmp_path: Path) -> None:
    text = megatron(*((at, 400.0) for at in range(1, 31)), prefix="[rank1]:")
    (tmp_path / "train.log").write_text(text)
    log = read_job_log(tmp_path / "train.log").log
    assert log is not None
    assert log.ranks_stated


@pytest.mark.parametrize(
    "line",
    [
        "num_epochs: 20",
        "   max_epochs = 20",
        "Namespace(lr=0.1, epochs=20)",
        "'--epochs=20', '--lr=0.1'",
        '{"lr": 0.1, "num_train_epochs": 20}',
        "INFO n_epochs: 20",
        "lr=0.1 epochs=20",
        "Total epochs: 20",
    ],
)
def test_the_number_of_epochs_is_that_of_the_argument(tmp_path: Path, line: str) -> None:
    log = run_of(tmp_path, f"{line}\n{STEPS}").job_log
    assert log is not None
    assert log.whole("epochs") == 20


@pytest.mark.parametrize(
    "line",
    [
        "patience epochs: 20",
        "save every n epochs: 20",
        "remaining epochs: 20",
        "warmup-epochs: 20",
        "warmup.epochs=20",
        "save_every_n_epochs: 20",
        "evaluated every 5 epochs: 20",
    ],
)
def test_numbers_of_epochs_of_something_else_are_not_those_of_the_job(tmp_path: Path, line: str) -> None:
    log = run_of(tmp_path, f"{line}\n{STEPS}").job_log
    assert log is not None
    assert log.whole("epochs") is None


@pytest.mark.parametrize(("distributed", "ranks"), [("True", 4), ("False", 1)])
def test_openmmlab_states_whether_it_is_distributed_and_over_how_many_devices(
    tmp_path: Path, distributed: str, ranks: int
) -> None:
    run = run_of(tmp_path, f"    Distributed training: {distributed}\n    GPU number: {ranks}\n{STEPS}")
    assert run.layout.world_size == ranks
    assert any(f"the job has {ranks} rank{'s' * (ranks > 1)} by line" in note for note in run.notes)
