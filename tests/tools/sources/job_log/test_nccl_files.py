"""NCCL's output of one job in several files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.metrics.registry import measure
from tools.run.recorded.job_log import NcclFacts
from tools.sources.job_log.nccl import NcclReader
from tools.sources.job_log.nccl_files import joined_nccl
from tools.sources.load import load_run
from tools.views.profile import Profile

COMM_ID = " commId 0xabc"


def of_rank(rank: int, network: str, comm_id: str = COMM_ID, channels: int = 2) -> list[str]:
    """What one process of a ring of four writes; two of them are on a host. Only the sending end is printed."""
    head = f"node{rank // 2}:{100 + rank}:{200 + rank} [{rank % 2}] NCCL INFO "
    comm = f"comm 0x5{rank}a rank {rank} nranks 4 cudaDev {rank % 2} busId {rank}b000{comm_id}"
    to = (rank + 1) % 4
    return [
        f"{head}{'Using network IB' if 'IB' in network else 'NET/IB : No device found.'}",
        f"{head}{comm} - Init START",
        *(f"{head}Channel 0{at}/0 : {rank}[0] -> {to}[0] [send] via {network}" for at in range(channels)),
        f"{head}{channels} coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels",
        f"{head}{comm} - Init COMPLETE",
    ]


def facts(lines: Sequence[str], file: int = 0) -> NcclFacts:
    """What a file of these lines holds."""
    reader = NcclReader(file)
    for number, line in enumerate(lines, 1):
        reader.take(number, line)
    return reader.facts()


def test_connections_of_the_files_of_all_processes_are_added_up(tmp_path: Path) -> None:
    """Two hosts of one communicator: one is on InfiniBand, the other on sockets."""
    for rank, network in enumerate(("NET/IB/0", "NET/IB/0", "NET/Socket/0", "NET/Socket/0")):
        (tmp_path / f"nccl.node{rank // 2}.{rank}").write_text("\n".join(of_rank(rank, network)) + "\n")
    profile = Profile(load_run([tmp_path]))
    log = profile.run.job_log
    assert log is not None
    (joined,) = log.nccl.communicators
    assert (joined.ranks, joined.transports) == ((0, 1, 2, 3), {"NET/IB": 4, "NET/Socket": 4})
    assert log.nccl.hosts == ("node0", "node1")
    assert [each.value for each in log.nccl.fallbacks] == ["NET/IB : No device found"]
    sockets = measure(profile, "nccl_connections", transport="NET/Socket")
    assert sockets.value == 4.0
    assert sockets.selector == "connections over NET/Socket, nccl.node1.2, line 3; nccl.node1.3, line 3"


@pytest.mark.parametrize("comm_id", [COMM_ID, ""])
def test_a_copy_of_a_file_adds_no_connection(comm_id: str) -> None:
    whole = [line for rank in range(4) for line in of_rank(rank, "NET/IB/0", comm_id)]
    files = [facts(of_rank(1, "NET/IB/0", comm_id), 0), facts(whole, 1), facts(whole, 2)]
    (joined,) = joined_nccl(files).communicators
    assert joined.transports == {"NET/IB": 8}


OTHERS = (
    "NCCL version 2.27.7+cuda13.0",
    "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
    "NCCL_ALGO set by environment to Tree",
    "GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
    "GPU Direct RDMA Enabled for HCA 1 'mlx5_1'",
    "=== System : maxBw 24.0 totalBw 240.0 ===",
    "Using network IB",
    "Could not open XML topology file /etc/nope.xml : No such file or directory",
)


def test_every_fact_of_a_file_is_one_of_the_job() -> None:
    lines = [f"node0:100:200 [0] NCCL INFO {each}" for each in OTHERS]
    lines += [*of_rank(2, "NET/Socket/0"), "node0:100:200 [0] NCCL WARN Call to bind failed"]
    lines += ["node9:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/IPC"]  # of no communicator that is named
    read = facts(lines)
    joined = joined_nccl([read])
    for each in fields(NcclFacts):
        own = getattr(joined, each.name)
        assert own, each.name
        if each.name not in ("communicators", "unjoined"):  # these no longer hold the ends that are open
            assert own == getattr(read, each.name), each.name


def test_the_fewest_channels_of_all_files_are_those_of_the_communicator() -> None:
    files = [facts(of_rank(rank, "NET/IB/0", channels=2 - rank), rank) for rank in range(2)]
    (joined,) = joined_nccl(files).communicators
    assert (joined.channels, joined.channels_line, joined.channels_file) == (1, 4, 1)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=40))
def test_files_of_processes_give_the_connections_of_one_file(ends: list[tuple[int, int, bool]]) -> None:
    """Whichever end of 3 connections each of 4 processes prints."""
    files = []
    for rank in range(4):
        comm = f"node{rank}:1:1 [0] NCCL INFO comm 0x1 rank {rank} nranks 4 cudaDev 0{COMM_ID}"
        own = [
            f"node{at}:1:1 [0] NCCL INFO Channel {to}/0 : 0[0] -> 1[0] [{'send' if sends else 'receive'}] via NET/IB/0"
            for at, to, sends in ends
            if at == rank
        ]
        files.append([f"{comm} - Init START", *own, f"{comm} - Init COMPLETE"])
    whole = facts([line for own in files for line in own])
    apart = joined_nccl([facts(own, file) for file, own in enumerate(files)])
    assert apart.communicators[0].transports == whole.communicators[0].transports
