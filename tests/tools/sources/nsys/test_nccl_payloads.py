"""Payloads of NCCL's NVTX ranges give collectives their size and group; without them both stay unknown."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.sources.nsys.export import Export, process, training
from tools.metrics.registry import measure
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.nsys.nccl_payloads import UNKNOWN, Message, Payloads, elements
from tools.sources.options import LoadOptions
from tools.sources.sqlite_file import open_database
from tools.views.communication.collectives import collectives
from tools.views.profile import Profile

COMMUNICATOR, SIZE, RANKS = "NCCL communicator ID", "Message size [bytes]", "No. of ranks"
REDUCE, MADE = 16777220, 16777218
WORLD = 0xFEED_0000_0000_0001  # above the largest int64
MESSAGE = 4 << 20


def recorded() -> Export:
    """Two ranks; every all-reduce is launched inside of a call with a payload of 4 MiB."""
    export = training()
    export.add("NVTX_EVENTS", eventType=75, domainId=1, globalTid=process(500) + 500, text="NCCL", start=0)
    export.add("NVTX_EVENTS", eventType=75, domainId=1, globalTid=process(501) + 501, text="NCCL", start=0)
    export.schema(REDUCE, (COMMUNICATOR, 0), (SIZE, 8))
    export.schema(MADE, (COMMUNICATOR, 0), (RANKS, 8), ("Rank", 12), ("CUDA device", 16))
    for rank, pid in enumerate((500, 501)):
        export.called(pid, "ncclCommInitRank", 1, 2, MADE, struct.pack("<QIIII", WORLD, 2, rank, rank, 0))
        for step in range(4):
            at = 1000 * step
            export.called(pid, "ncclAllReduce", at + 68, at + 78, REDUCE, struct.pack("<QQ", WORLD, MESSAGE))
    return export


def loaded(path: Path) -> Run:
    return load_run([path], LoadOptions(workers=1))


def test_collectives_have_the_bytes_and_the_group_of_their_payload(tmp_path: Path) -> None:
    table = collectives(Profile(loaded(recorded().write(tmp_path / "a.sqlite"))))
    assert len(table) == 8
    assert table["kind"].unique().tolist() == ["all_reduce"]
    assert table["bytes"].unique().tolist() == [MESSAGE]
    assert table["group_size"].unique().tolist() == [2]
    assert table["group"].unique().tolist() == [f"{WORLD:#x}"]


def test_without_payloads_sizes_are_unknown_and_not_zero(tmp_path: Path) -> None:
    path = recorded().write(tmp_path / "a.sqlite", columns={"NVTX_EVENTS": ["binaryData"]})
    table = collectives(Profile(loaded(path)))
    assert table["bytes"].unique().tolist() == [UNKNOWN]


def test_all_ranks_of_a_collective_are_matched_by_their_communicator(tmp_path: Path) -> None:
    table = collectives(Profile(loaded(recorded().write(tmp_path / "a.sqlite"))))
    matched = table[table["match"] >= 0].groupby("match")["rank"].apply(lambda ranks: tuple(sorted(ranks)))
    assert set(matched) == {(0, 1)}
    assert len(matched) == 4


def test_bandwidth_is_the_message_over_the_time_of_the_transfer(tmp_path: Path) -> None:
    """Both ranks are in the all-reduce for the same 200 us; of two ranks the factor of the NCCL tests is 1."""
    profile = Profile(loaded(recorded().write(tmp_path / "a.sqlite")))
    assert measure(profile, "bus_bandwidth", kind="all_reduce").value == pytest.approx(MESSAGE / 200e-6)


@pytest.mark.parametrize(
    ("name", "members", "expected"),
    [
        ("ncclAllReduce", UNKNOWN, (64, 64)),
        ("ncclAllGather", 4, (64, 256)),
        ("ncclAllGather", UNKNOWN, (64, UNKNOWN)),
        ("ncclReduceScatter", 4, (256, 64)),
        ("ncclReduceScatter", UNKNOWN, (UNKNOWN, UNKNOWN)),
        ("ncclSend", UNKNOWN, (64, 64)),
        ("ncclSomethingNew", 4, (UNKNOWN, UNKNOWN)),
    ],
)
def test_the_message_is_what_one_rank_sends_or_receives(name: str, members: int, expected: tuple[int, int]) -> None:
    assert elements(name, Message(1, 64, UNKNOWN), members) == expected


@given(st.binary(max_size=80))
def test_no_bytes_break_the_decoder(blob: bytes) -> None:
    payloads = Payloads({REDUCE: {COMMUNICATOR: 0, SIZE: 8}})
    for data in (blob, struct.pack("<IIIIQQ", 1, 0, REDUCE, 0, 16, 48) + blob):
        found = payloads.message(data)
        assert found is None or (len(data) >= 48 and found.size_bytes >= UNKNOWN)


def test_a_payload_is_read_by_the_offsets_of_its_schema(tmp_path: Path) -> None:
    with open_database(recorded().write(tmp_path / "a.sqlite")) as database:
        payloads = Payloads.of(database)
    head = struct.pack("<IIIIQQ", 1, 0, MADE, 0, 24, 56)
    assert payloads.message(head + struct.pack("<QIIII", WORLD, 8, 3, 3, 0)) == Message(WORLD, UNKNOWN, 8)
    assert payloads.message(np.uint8(1)) is None
