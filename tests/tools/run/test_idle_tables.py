"""Tables of nvidia-smi that a job prints while none of its processes is on the devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.analyzers.registry import check_of
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.run.first_printed import idle_tables
from tools.sources.load import load_run
from tools.views.profile import Profile

FRAME = "+-----------------------------------------+------------------------+----------------------+"
NONE = "|  No running processes found                                                             |"
PYTHON = "|    0   N/A  N/A     12345      C   python                                       40000MiB |"


def table(busy: int, used_mib: int, processes: str = NONE) -> str:
    return "\n".join(
        [
            "| NVIDIA-SMI 570.158.01             Driver Version: 570.158.01     CUDA Version: 12.8     |",
            FRAME,
            "|   0  NVIDIA H800                    On  |   00000000:0F:00.0 Off |                    0 |",
            f"| N/A   27C    P0           70W /  700W |   {used_mib:5d}MiB /  81559MiB |    {busy:3d}%      Default |",
            FRAME,
            processes,
            FRAME,
        ]
    )


OTHER = "\n".join(f"loading shard {at} of the checkpoint" for at in range(20))
NCCL = "node1:100:200 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.0.0.1<0>"


def profile_of(path: Path, *parts: str) -> Profile:
    (path / "job.out").write_text("\n".join(("starting", NCCL, *parts, OTHER)) + "\n")
    return Profile(load_run([path / "job.out"]))


def test_tables_without_any_process_are_no_state_of_the_run(tmp_path: Path) -> None:
    """They stand in lines 6 and 33 of the output."""
    profile = profile_of(tmp_path, table(0, 0), OTHER, table(0, 0))
    assert idle_tables(profile.run) == {0: (6, 33)}
    use, memory = (check_of(profile, name) for name in ("computation.device_use", "memory.device_samples"))
    assert use is not None
    assert memory is not None
    assert (use.status, memory.status, memory.support) == ("cannot_answer", "cannot_answer", ())
    assert "lines 6, 33" in use.support[0].template
    assert "py-spy" not in ranking(profile).needs


@pytest.mark.parametrize("at_work", [table(98, 40000, PYTHON), table(97, 40000)])
def test_tables_of_the_work_count_without_idle_ones_before_them(tmp_path: Path, at_work: str) -> None:
    profile = profile_of(tmp_path, table(0, 0), OTHER, at_work)
    assert idle_tables(profile.run) == {}
    busy = measure(profile, "device_counter_pct", counter="device_busy_pct", device="0", statistic="mean")
    assert busy.value >= 97.0
    assert "1 of 2 readings are tables of devices without any process and left out" in " ".join(profile.run.notes)


def test_a_file_that_is_nothing_but_a_table_shows_its_moment(tmp_path: Path) -> None:
    (tmp_path / "smi.txt").write_text(table(0, 0) + "\n")
    profile = Profile(load_run([tmp_path / "smi.txt"]))
    assert idle_tables(profile.run) == {}
    use = check_of(profile, "computation.device_use")
    assert use is not None
    assert use.status == "found"
