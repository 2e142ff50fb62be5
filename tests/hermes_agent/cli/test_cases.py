"""``hermes-dx cases``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_agent.cli import cases
from tests.hermes_agent.cli.commands import execute
from tools.errors import ExitCode, UsageError

pytestmark = pytest.mark.usefixtures("commands_cache")
QUERY = ("many", "tiny", "kernels,", "launch", "bound,", "low", "GPU", "utilization")


def test_rows_come_best_first_with_the_agreed_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(cases, "search", *QUERY, "--json", "--limit", "3") == 0
    rows = json.loads(capsys.readouterr().out)
    assert 1 <= len(rows) <= 3
    assert list(rows[0]) == ["id", "title", "url", "cause", "family", "score", "why"]
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert rows[0]["cause"] == "operator_dispatch"


def test_nothing_close_is_said_on_standard_error_and_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(cases, "search", "the airspeed of a swallow", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == []
    assert "no case:" in printed.err


def test_the_text_form_names_title_and_address(capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "search", *QUERY, "--limit", "1")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[2].strip().startswith("https://")


def test_a_case_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "show", "aidotnet-launch-bound-graph")
    out = capsys.readouterr().out
    assert "Cause: operator_dispatch (small_operators), family cpu" in out
    assert "Effect: 32,000 ops: 1354.9 ms -> 244.8 ms" in out


def test_a_case_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "show", "aidotnet-launch-bound-graph", "--json")
    assert json.loads(capsys.readouterr().out)["mechanism"] == "small_operators"


def test_an_unknown_case_says_how_to_find_one() -> None:
    with pytest.raises(UsageError, match="cases search"):
        execute(cases, "show", "no-such-case")


def test_the_bundled_cases_are_all_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(cases, "check") == 0
    assert "all as they should be" in capsys.readouterr().out


def test_a_faulty_case_is_named_and_the_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.yaml").write_text("id: [", encoding="utf-8")
    assert execute(cases, "check", str(tmp_path)) == ExitCode.INPUT
    assert "broken.yaml" in capsys.readouterr().err
