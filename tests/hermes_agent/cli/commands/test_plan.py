"""``hermes-dx plan``."""

from __future__ import annotations

import json
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from hermes_agent.cli.commands import plan
from tests.hermes_agent.cli.execution import execute
from tools.errors import InputError, UsageError
from tools.whatif.planners.record import NoPlanError
from tools.whatif.planners.registry import MODULES

PAGE = (Path(__file__).parents[4] / "docs/planners.md").read_text()
GRADIENTS = {
    "gradients": [{"ready_ms": 4, "bytes": 2}, {"ready_ms": 9, "bytes": 2}],
    "link": {"alpha_ms": 2, "beta_ms_per_byte": 0.5},
    "current": [[0, 1]],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The input of the published pair of gradients."""
    path = tmp_path / "input.json"
    path.write_text(json.dumps(GRADIENTS))
    return path


def test_the_commands_planners_are_those_of_the_registry() -> None:
    assert set(plan.PLANNERS) == MODULES.keys()


def test_the_plan_is_one_json_object(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(plan, "gradient-buckets", str(file), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["schema"], record["by"]) == ("hermes-dx/plan/1", "simulation")
    assert (record["plan"]["buckets"], record["before_ms"], record["after_ms"]) == ([[0], [1]], 13.0, 12.0)


def test_the_text_gives_both_times_and_the_limit(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(plan, "gradient-buckets", str(file)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Predicted (by simulation): 12 ms instead of 13 ms, 1.08x"
    assert lines[1].startswith("Limit: the last gradient")
    assert "  buckets: [[0], [1]]" in lines
    assert lines[-1].startswith("Assumes: ")


def test_the_input_may_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(json.dumps(GRADIENTS).encode())))
    assert execute(plan, "gradient-buckets", "-") == 0
    assert "12 ms" in capsys.readouterr().out


@pytest.mark.parametrize("name", plan.PLANNERS)
def test_the_example_of_the_page_prints_what_the_page_shows(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    example, _, shown = section.partition("```json\n")[2].partition("```\n\n```\n")
    path = tmp_path / "input.json"
    path.write_text(example)
    assert execute(plan, name, str(path)) == 0
    assert capsys.readouterr().out.startswith(shown.partition("```")[0])


@pytest.mark.parametrize("name", plan.PLANNERS)
def test_the_schema_needs_no_input_and_describes_every_field(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(plan, name, "--schema") == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["planner"] == name
    assert schema["input"]["additionalProperties"] is False
    assert schema["plan"]["properties"]


def test_a_recorded_run_gives_its_gradients_link_and_buckets(capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(__file__).parents[4] / "evals/lab/recorded/tiny_buckets/sounds-mild/slow"
    assert execute(plan, "gradient-buckets", "--from", str(run), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["before_ms"] == pytest.approx(127.24, rel=0.03)  # the recorded step
    assert record["plan"]["ddp"]["bucket_cap_mb"] is None  # the default, as in its fixed twin
    with pytest.raises(UsageError, match="cannot take its input from a run"):
        execute(plan, "layout", "--from", str(run))
    with pytest.raises(UsageError, match="name one input"):
        execute(plan, "gradient-buckets", "-", "--from", str(run))


def test_a_missing_input_is_a_usage_error_and_a_missing_file_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--schema describes it"):
        execute(plan, "layout")
    with pytest.raises(InputError, match="No such file"):
        execute(plan, "layout", str(tmp_path / "none.json"))


def test_no_plan_is_exit_code_three(tmp_path: Path) -> None:
    layer = {"forward_ms": 1, "backward_ms": 2, "activation_bytes": 3, "weight_bytes": 4, "optimizer_bytes": 5}
    path = tmp_path / "input.json"
    limits = {"stages": 1, "device_memory_bytes": 10, "host_link_bytes_per_ms": 1}
    path.write_text(json.dumps({"layers": [layer], **limits}))
    with pytest.raises(NoPlanError, match="2 more") as caught:
        execute(plan, "pipeline-memory", str(path))
    assert int(caught.value.exit_code) == 3
