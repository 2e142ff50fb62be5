"""What leaves the machine with a recorded trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from evals.lab.record import REPOSITORY, scrub_trace, without_paths

EVENTS = [{"ph": "X", "name": "aten::mm", "ts": 1.5, "dur": 2.25, "pid": 3, "tid": 3, "args": {"Input type": []}}]


def recorded(folder: Path) -> Path:
    path = folder / "rank0.pt.trace.json"
    path.write_text(
        json.dumps({"host_name": "node-17", "traceName": "/home/someone/run", "trace_id": "A1", "traceEvents": EVENTS})
    )
    return path


def test_host_and_path_go_and_every_event_stays(tmp_path: Path) -> None:
    scrub_trace(recorded(tmp_path), tmp_path / "out.gz")
    assert json.loads(gzip.decompress((tmp_path / "out.gz").read_bytes())) == {"traceEvents": EVENTS}


def test_ids_that_join_with_a_device_stay_where_there_is_one(tmp_path: Path) -> None:
    def args(properties: list[dict[str, int]]) -> dict[str, int]:
        events = [{"ph": "X", "name": "aten::mm", "args": {"External id": 4, "Ev Idx": 1}}]
        path = tmp_path / "rank0.pt.trace.json"
        path.write_text(json.dumps({"deviceProperties": properties, "traceEvents": events}))
        scrub_trace(path, tmp_path / "out.gz")
        kept: dict[str, int] = json.loads(gzip.decompress((tmp_path / "out.gz").read_bytes()))["traceEvents"][0]["args"]
        return kept

    assert args([{"id": 0}]) == {"External id": 4}
    assert args([]) == {}


def test_the_same_trace_gives_the_same_bytes_whatever_the_time(tmp_path: Path) -> None:
    scrub_trace(recorded(tmp_path), tmp_path / "first.gz")
    scrub_trace(recorded(tmp_path), tmp_path / "second.gz")
    first = (tmp_path / "first.gz").read_bytes()
    assert first == (tmp_path / "second.gz").read_bytes()
    assert first[4:8] == bytes(4)  # the time field of the gzip header


def test_a_trace_that_was_made_fit_before_stays_as_it_is_when_done_again(tmp_path: Path) -> None:
    target = tmp_path / "out.gz"
    scrub_trace(recorded(tmp_path), target)
    once = target.read_bytes()
    scrub_trace(target, target)
    assert target.read_bytes() == once


def test_stacks_keep_their_files_and_lose_where_these_lie() -> None:
    stack = f"{REPOSITORY}/evals/lab/training.py(12): train;/opt/env/lib/python3.11/site-packages/torch/nn/m.py(3): f"
    assert without_paths(stack) == "evals/lab/training.py(12): train;torch/nn/m.py(3): f"
    assert without_paths('"/usr/lib/python3.11/threading.py(5): run"') == '"threading.py(5): run"'
