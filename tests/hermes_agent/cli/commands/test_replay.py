"""``hermes-dx replay``: graphs of others and of runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hermes_agent.cli.main import main
from hermes_agent.demo.data import demo_run

NODES = [
    {"id": "a", "name": "forward", "resource": "gpu", "duration_ms": 2},
    {"id": "b", "name": "all_\x1b[31mreduce", "resource": "link", "duration_ms": 6, "kind": "communication"},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A graph of two operators."""
    path = tmp_path / "graph.json"
    edges = [{"source": "a", "target": "b"}]
    path.write_text(json.dumps({"schema": "hermes-dx/graph/1", "nodes": NODES, "edges": edges}))
    return path


def test_makespan_path_and_resources_are_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Makespan (by simulation): 8 ms",
        "Longest path: 2 operators; communication 6 ms, computation 2 ms",
        "  link: busy 6 ms (75 %)",
        "  gpu: busy 2 ms (25 %)",
    ]


def test_other_durations_are_compared_with_the_given_ones(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(file), "--scale", "forward=0", "--scale", "all*=0.5", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["schema"], record["before_ms"], record["makespan_ms"]) == ("hermes-dx/replay/1", 8, 3)
    assert [(node["id"], node["start_ms"], node["end_ms"]) for node in record["path"]] == [("a", 0, 0), ("b", 0, 3)]


def test_the_graph_of_a_run_is_written_and_replays_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "run.json"
    assert main(["replay", str(demo_run()), "--graph", str(written)]) == 0
    of_run = capsys.readouterr().out
    assert main(["replay", str(written)]) == 0
    assert capsys.readouterr().out == of_run


@pytest.mark.parametrize("scale", ["forward", "=2", "forward=-1", "forward=nan", "forward=fast"])
def test_a_factor_that_cannot_be_is_refused(file: Path, scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(file), "--scale", scale]) == 2
    assert "write NAME=FACTOR" in capsys.readouterr().err


def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path / "none.json")]) == 3
    assert "none.json: No such file or directory; name a file that can be read" in capsys.readouterr().err
    (tmp_path / "cut.json").write_text('{"schema": "hermes-dx/graph/1", "nodes": [')
    assert main(["replay", str(tmp_path / "cut.json")]) == 2
    assert f"{tmp_path / 'cut.json'}: the input is not JSON" in capsys.readouterr().err
    assert main(["replay"]) == 2


def test_the_schema_names_the_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--schema"]) == 0
    assert "duration_ms" in json.loads(capsys.readouterr().out)["$defs"]["GraphNode"]["required"]


def test_a_graph_never_replaces_a_file_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = Path(shutil.copy(demo_run() / "rank0.pt.trace.json.gz", tmp_path))
    before = trace.read_bytes()
    assert main(["replay", str(trace), "--graph", str(trace)]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert trace.read_bytes() == before
