from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from evals.suite.observations import asked, present


def _trace(folder: Path, rank: int, *events: dict[str, Any], world_size: int = 1) -> Path:
    document = {"distributedInfo": {"rank": rank, "world_size": world_size}, "traceEvents": list(events)}
    file = folder / f"rank{rank}.pt.trace.json.gz"
    file.write_bytes(gzip.compress(json.dumps(document).encode()))
    return file


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("the same steps with `with_stack=True`: the frames name what runs", {"stacks"}),
        ("`hermes_agent.monitor` in the training", {"monitor"}),
        ("the traces of all ranks for the same steps, with record_shapes=True", {"all_ranks", "shapes"}),
        (
            "a trace of a few steps: `hermes-dx monitor profile RUN` while the training runs under the monitor",
            {"trace"},
        ),
        ("`py-spy dump` of the process while it pauses", set()),
    ],
)
def test_a_sentence_asks_for_what_it_names(text: str, kinds: set[str]) -> None:
    assert asked(text) == kinds


def test_a_run_holds_what_its_events_and_files_show(tmp_path: Path) -> None:
    _trace(tmp_path, 0, {"cat": "python_function", "name": "train.py(3)"}, world_size=2)
    assert present(tmp_path) == {"trace", "stacks"}
    _trace(tmp_path, 1, {"cat": "cpu_op", "args": {"Input Dims": [[2]]}}, world_size=2)
    (tmp_path / "monitor").mkdir()
    (tmp_path / "monitor" / "rank0.steps.bin").write_bytes(b"")
    assert present(tmp_path) == {"trace", "stacks", "shapes", "all_ranks", "monitor"}


def test_a_trace_that_ends_in_the_middle_holds_what_was_written(tmp_path: Path) -> None:
    file = _trace(tmp_path, 0, {"cat": "python_function"}, *({"cat": "cpu_op", "ts": at} for at in range(20_000)))
    file.write_bytes(file.read_bytes()[:-2000])
    assert present(file) == {"trace", "all_ranks", "stacks"}


def test_the_log_of_a_run_alone_holds_no_observation(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 2.0\n", encoding="utf-8")
    assert present(tmp_path) == frozenset()
