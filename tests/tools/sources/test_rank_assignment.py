"""A trace's rank is the recorded one, else the one in its name, else assumed and said so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.errors import InputError
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.sources.ranks import assign_ranks, host_of

ALONE = LoadOptions(workers=1)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.json", 3),
        ("trace_rank_12.json.gz", 12),
        ("worker7.pt.trace.json.gz", 7),
        ("run_r5_trace.json", 5),
        ("trace_4.json.gz", 4),
        ("job-rank-0-step10.json", 0),
    ],
)
def test_the_rank_is_taken_from_the_file_name(name: str, rank: int) -> None:
    (guess,) = assign_ranks([Path(name)], [None])

    assert (guess.rank, guess.origin) == (rank, "file_name")


@pytest.mark.parametrize(
    "name", ["trace.json", "resnet50_workers4.pt.trace.json", "node_4711.1694128201545.pt.trace.json"]
)
def test_other_numbers_in_a_name_are_no_rank(name: str) -> None:
    (guess,) = assign_ranks([Path(name)], [None])

    assert (guess.rank, guess.origin) == (0, "order")


def test_recorded_ranks_come_first_and_the_rest_fills_the_gaps() -> None:
    guesses = assign_ranks([Path("x.json"), Path("rank1.json"), Path("y.json")], [None, None, 0])

    assert [(guess.rank, guess.origin) for guess in guesses] == [(2, "order"), (1, "file_name"), (0, "recorded")]


def test_the_host_is_the_one_that_the_profilers_handler_writes_into_the_name() -> None:
    assert host_of(Path("gpu-node-3_4711.1694128201545.pt.trace.json.gz")) == "gpu-node-3"
    assert host_of(Path("trace.json")) == ""


def test_assumed_ranks_are_noted(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.json", [span("op", 1, 1)])

    run = load_run([path], ALONE)

    assert run.ranks[0].rank_origin == "order"
    assert run.notes == ("trace.json: the trace names no rank; 0 was assumed",)
    assert "assumed" in run.sources[0].note


def test_distributed_info_may_be_text(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json", [span("op", 1, 1)], distributedInfo=json.dumps(rank_info(6, 8)))

    run = load_run([path], ALONE)

    assert run.rank_numbers == (6,)
    assert run.layout.world_size == 8


def test_the_same_bytes_twice_are_one_rank(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write_trace(tmp_path / name, [span("op", 1, 1)])

    run = load_run([tmp_path], ALONE)

    assert run.rank_numbers == (0,)
    assert [source.status for source in run.sources] == ["complete", "excluded"]
    assert "holds the same bytes as a.json" in run.sources[1].note


def test_two_traces_of_one_rank_at_the_same_time_are_not_mixed(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.json", [span("op", 100, 50)], distributedInfo=rank_info(0))
    write_trace(tmp_path / "b.json", [span("op", 120, 50)], distributedInfo=rank_info(0))

    run = load_run([tmp_path], ALONE)

    assert len(run.ranks[0].events) == 1
    assert "overlaps a.json in time" in run.sources[1].note
    assert any("b.json was left out" in note for note in run.notes)


def test_traces_that_cannot_be_of_one_run_are_refused_with_the_reasons(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.json", [span("op", 1.7e15, 5)], distributedInfo=rank_info(0, 2))
    write_trace(tmp_path / "b.json", [span("op", 1.7e15 + 9e9, 5)], distributedInfo=rank_info(1, 8))

    with pytest.raises(InputError, match=r"different sizes \(2, 8 ranks\) and were recorded up to 2\.5 hours apart"):
        load_run([tmp_path], ALONE)


def test_ranks_whose_clocks_cannot_be_compared_each_start_at_zero(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.json", [span("op", 1.7e15, 5)], distributedInfo=rank_info(0))
    write_trace(tmp_path / "b.json", [span("op", 77, 5)], distributedInfo=rank_info(1))

    run = load_run([tmp_path], ALONE)

    assert [rank.events.frame["start_ns"][0] for rank in run.ranks] == [0, 0]
    assert run.origin_unix_ns is None
    assert run.notes == ("not all traces record the time of day, so times of different ranks may not be comparable",)


def test_traces_of_one_rank_of_jobs_of_different_size_are_not_joined(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.json", [span("op", 100, 50)], distributedInfo=rank_info(0, 2))
    write_trace(tmp_path / "b.json", [span("op", 900, 50)], distributedInfo=rank_info(0, 4))

    run = load_run([tmp_path], ALONE)

    assert len(run.ranks[0].events) == 1
    assert "another size" in run.sources[1].note
