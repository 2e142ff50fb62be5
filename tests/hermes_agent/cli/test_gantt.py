"""``--svg`` and ``--perfetto`` of plan, replay and whatif."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hermes_agent.cli.main import main
from hermes_agent.demo.data import demo_run

HOSTILE = '<script>alert(1)</script>\x1b[31m & "'


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A graph with names that are markup, and a second operator of no length."""
    path = tmp_path / "graph.json"
    nodes = [
        {"id": "a", "name": HOSTILE, "resource": HOSTILE, "kind": HOSTILE, "duration_ms": 2},
        {"id": "b", "resource": "link", "duration_ms": 0},
    ]
    path.write_text(json.dumps({"schema": "hermes-dx/graph/1", "nodes": nodes}))
    return path


def test_names_of_a_graph_are_text_in_the_picture(graph: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "replay.svg"
    assert main(["replay", str(graph), "--svg", str(drawn)]) == 0
    text = drawn.read_text()
    assert "<script" not in text
    assert "\x1b" not in text
    texts = [each.text or "" for each in ElementTree.fromstring(text).iter() if each.tag.endswith("}text")]
    assert any(each.startswith("<script>alert(1)") for each in texts)


def test_both_replays_are_processes_of_the_trace(graph: Path, tmp_path: Path) -> None:
    traced = tmp_path / "replay.json.gz"
    assert main(["replay", str(graph), "--scale", "*=0.5", "--perfetto", str(traced)]) == 0
    events = json.loads(gzip.decompress(traced.read_bytes()))["traceEvents"]
    assert [each["args"]["name"] for each in events if each["name"] == "process_name"] == ["given", "scaled"]
    assert [(each["pid"], each["ts"], each["dur"]) for each in events if each["ph"] == "X"] == [
        (1, 0, 2000),
        (2, 0, 1000),
    ]


def test_a_what_if_shows_the_steps_now_and_predicted(tmp_path: Path) -> None:
    drawn = tmp_path / "whatif.svg"
    assert main(["whatif", str(demo_run()), "no waits for data", "--svg", str(drawn)]) == 0
    text = drawn.read_text()
    assert "Replayed steps now and with no waits for data" in text
    assert ", now<" in text
    assert ", predicted<" in text


def test_a_plan_of_layouts_is_refused_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, drawn = tmp_path / "input.json", tmp_path / "plan.svg"
    link = {"alpha_ms": 0.01, "beta_ms_per_byte": 5e-9}
    cluster = {"devices": 2, "devices_per_node": 2, "device_memory_bytes": 4e10, "operations_per_ms": 1.5e11}
    sizes = {"layers": 2, "hidden_width": 64, "heads": 2, "sequence_length": 32, "vocabulary": 100}
    given = {"model": sizes, "cluster": cluster | {"inside_node": link, "between_nodes": link}, "global_batch": 4}
    file.write_text(json.dumps(given))
    assert main(["plan", "layout", str(file), "--svg", str(drawn)]) == 2
    assert "cannot be drawn" in capsys.readouterr().err
    assert not drawn.exists()


def test_the_input_is_never_overwritten(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = graph.read_bytes()
    assert main(["replay", str(graph), "--perfetto", str(graph)]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert graph.read_bytes() == before


def test_a_picture_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "graph.json"
    file.write_text(json.dumps({"schema": "hermes-dx/graph/1", "nodes": [{"id": "a", "duration_ms": 0}]}))
    assert main(["replay", str(file), "--perfetto", str(tmp_path / "trace.json")]) == 2
    assert "nothing to draw" in capsys.readouterr().err
