"""Sampled devices are joined to ranks by NCCL's lines alone, and never by their index."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.run.device_ranks import UNKNOWN, ranks_of_devices
from tools.run.model import Run
from tools.sources.load import load_run

INIT = (
    "{host}:{pid}:{pid} [{seen}] NCCL INFO comm 0x7f{pid:x} rank {rank} nranks 4 cudaDev {seen}{nvml} busId 1b000 "
    "commId 0x9f - Init COMPLETE"
)
SMI = "index, utilization.gpu [%]\n0, 97 %\n1, 95 %\n"


def run_of(tmp_path: Path, *lines: str) -> Run:
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "smi.csv").write_text(SMI)
    return load_run([tmp_path])


def lines(hosts: tuple[str, ...], seen: tuple[int, ...], nvml: tuple[int, ...] | None = None) -> list[str]:
    return [
        INIT.format(
            host=host, pid=100 + rank, seen=seen[rank], rank=rank, nvml="" if nvml is None else f" nvmlDev {nvml[rank]}"
        )
        for rank, host in enumerate(hosts)
    ]


def test_the_number_on_the_machine_counts_and_not_what_a_process_sees(tmp_path: Path) -> None:
    run = run_of(tmp_path, *lines(("node1",) * 4, (0, 0, 0, 0), (3, 2, 1, 0)))
    assert ranks_of_devices(run) == {("", 0): 3, ("", 1): 2}
    assert "by NCCL's lines device 0 is rank 3, device 1 is rank 2" in run.notes


@pytest.mark.parametrize(
    ("hosts", "seen"),
    [
        (("node1",) * 4, (0, 0, 0, 0)),  # each process sees one device alone
        (("node1", "node1", "node2", "node2"), (0, 1, 0, 1)),  # of two hosts, and the samples name none
    ],
)
def test_without_a_number_or_a_host_the_rank_stays_unknown(
    tmp_path: Path, hosts: tuple[str, ...], seen: tuple[int, ...]
) -> None:
    run = run_of(tmp_path, *lines(hosts, seen))
    assert ranks_of_devices(run) == {}
    assert UNKNOWN in run.notes


def test_a_log_without_lines_of_nccl_joins_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path, *(f"step {step} step time: 500 ms" for step in range(1, 21)))
    assert ranks_of_devices(run) == {}
    assert UNKNOWN in run.notes
