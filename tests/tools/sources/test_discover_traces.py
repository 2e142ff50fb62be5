"""Of a folder the traces are found, and nothing outside of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.errors import InputError
from tools.sources.inventory import take_inventory
from tools.sources.load import load_run
from tools.sources.options import Limits, LoadOptions

ALONE = LoadOptions(workers=1)


def trace(path: Path, rank: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_trace(path, [span("op", 10 + rank, 5)], distributedInfo=rank_info(rank))


def test_traces_in_a_folder_and_the_folders_directly_below_are_found(tmp_path: Path) -> None:
    trace(tmp_path / "b.json", 1)
    trace(tmp_path / "sub" / "a.json.gz", 0)
    trace(tmp_path / "sub" / "deeper" / "c.json", 2)

    assert load_run([tmp_path], ALONE).rank_numbers == (0, 1)


def test_other_files_are_passed_over_and_named(tmp_path: Path) -> None:
    trace(tmp_path / "a.json", 0)
    (tmp_path / "train.bin").write_text("step 1")
    (tmp_path / "train.log").write_text("known to be none")
    (tmp_path / "config.json").write_text('{"lr": 1}')

    run = load_run([tmp_path], ALONE)

    assert run.rank_numbers == (0,)
    assert any("train.bin" in note and "train.log" not in note for note in run.notes)
    assert [(source.path.name, source.status) for source in run.sources] == [
        ("a.json", "complete"),
        ("config.json", "excluded"),
    ]
    assert "is no profiler trace" in run.sources[1].note


def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "run", tmp_path / "elsewhere"
    trace(inside / "a.json", 0)
    trace(outside / "b.json", 1)
    (inside / "b.json").symlink_to(outside / "b.json")
    (inside / "more").symlink_to(outside)

    run = load_run([inside], ALONE)

    assert run.rank_numbers == (0,)
    assert any("b.json" in note for note in run.notes)


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.json", 0)

    assert len(take_inventory([path, tmp_path, path], Limits()).traces) == 1


def test_no_more_files_than_the_limit_are_taken(tmp_path: Path) -> None:
    for rank in range(4):
        trace(tmp_path / f"{rank}.json", rank)

    found = take_inventory([tmp_path], Limits(files=3))

    assert [path.name for path in found.traces] == ["0.json", "1.json", "2.json"]
    assert "holds 4 traces; the first 3 are read" in found.notes[0]


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")

    with pytest.raises(InputError, match="neither a file nor a folder"):
        take_inventory([tmp_path / "pipe.json"], Limits())


def test_traces_that_a_logger_nests_are_found_and_captures_of_the_monitor_are_not(tmp_path: Path) -> None:
    nested = [tmp_path / "tb" / f"rank{rank}" / "plugins" / f"host{rank}.pt.trace.json" for rank in (0, 1)]
    for file in (*nested, tmp_path / "monitor" / "capture-1" / "rank0.pt.trace.json"):
        file.parent.mkdir(parents=True)
        file.write_text("{}", encoding="utf-8")
    assert take_inventory([tmp_path], Limits()).traces == tuple(nested)


def test_traces_near_the_run_folder_hide_those_further_below(tmp_path: Path) -> None:
    near, far = tmp_path / "now" / "rank0.json", tmp_path / "old" / "earlier" / "rank0.json"
    for file in (near, far):
        file.parent.mkdir(parents=True)
        file.write_text("{}", encoding="utf-8")
    assert take_inventory([tmp_path], Limits()).traces == (near,)
