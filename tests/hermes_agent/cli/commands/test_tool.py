"""``hermes-dx tool``: results and schemas as JSON, and one sentence for what is wrong."""

from __future__ import annotations

import json

import pytest

from hermes_agent.cli.commands import tool
from hermes_agent.cli.main import main
from hermes_agent.demo.data import demo_run
from tests.hermes_agent.cli.execution import execute
from tools.agent_tools.registry import TOOLS

DEMO = str(demo_run())


@pytest.mark.usefixtures("commands_cache")
def test_rows_and_cursor_lead_to_the_next_page(capsys: pytest.CaptureFixture[str]) -> None:
    ids: list[str] = []
    asked: dict[str, object] = {"rank": 1, "kind": "annotation", "step": 40, "limit": 4}
    while True:
        assert execute(tool, "find_events", DEMO, "--args", json.dumps(asked)) == 0
        record = json.loads(capsys.readouterr().out)
        assert {"id", "name", "rank", "step", "start_ms", "duration_ms"} <= record["rows"][0].keys()
        ids += [row["id"] for row in record["rows"]]
        if record["cursor"] is None:
            break
        asked["cursor"] = record["cursor"]
    assert len(ids) == len(set(ids)) == record["total"]


def test_the_list_holds_every_tool_with_its_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(tool, "--list") == 0
    listed = json.loads(capsys.readouterr().out)["tools"]
    assert [each["name"] for each in listed] == [each.name for each in TOOLS]
    kinds = next(each for each in listed if each["name"] == "find_events")["arguments"]["$defs"]["Kind"]["enum"]
    assert "kernel" in kinds
    assert {"rows", "cursor", "facts", "notes"} <= listed[0]["result"]["properties"].keys()


@pytest.mark.usefixtures("commands_cache")
def test_a_baseline_is_compared_with_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    fixed = demo_run().parent / "fixed"
    asked = json.dumps({"between": "runs", "by": "part", "rank": 1})
    assert execute(tool, "compare", DEMO, "--baseline", str(fixed), "--args", asked) == 0
    record = json.loads(capsys.readouterr().out)
    first = record["rows"][0]
    assert first["name"] == "data_wait"
    assert first["delta_ms"] == pytest.approx(first["b_ms"] - first["a_ms"])
    assert first["delta_ms"] > 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["find_events", DEMO, "--args", '{"rank": "x"}'], 2, "rank: should be a valid integer"),
        (["find_events", DEMO, "--args", "{"], 2, "do not fit: the whole: Invalid JSON"),
        (["find_events", DEMO, "--args", "[1]"], 2, "do not fit: the whole"),
        (["find_events", DEMO, "--args", '{"rank": 9}'], 2, "the run has no rank 9"),
        (["finde_events", DEMO], 2, "the nearest are find_events"),
        (["find_events"], 2, "name a tool and a run"),
        (["find_events", "/nowhere.json", "--args", '{"rank": 0}'], 3, "/nowhere.json"),
    ],
)
@pytest.mark.usefixtures("commands_cache")
def test_what_is_wrong_is_one_sentence(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tool", *words]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert len(said.err.splitlines()) == 1
