"""``hermes-dx ask``."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from hermes_agent.cli.commands import ask
from hermes_agent.demo.data import demo_run
from tests.hermes_agent.cli.execution import execute
from tools.errors import InputError, UsageError

pytestmark = pytest.mark.usefixtures("commands_cache")
DEMO = str(demo_run())


def test_the_answer_is_printed_with_its_citations(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(ask, DEMO, "what should I change first?") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Change this first: Move heavy transforms out of the training loop [A1].")
    assert printed.err == ""


def test_json_holds_the_question_the_text_and_every_figure_it_cites(capsys: pytest.CaptureFixture[str]) -> None:
    execute(ask, DEMO, "which rank is slowest?", "--json")
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == "hermes-dx/answer/1"
    assert (record["question"], record["intent"], record["by"]) == ("which rank is slowest?", "ranks", "template")
    assert all(f"[{each['id']}]" in record["text"] for each in record["evidence"])
    assert "rank_time_ms" in [each["metric"] for each in record["evidence"]]


@pytest.mark.parametrize("words", [[DEMO], [DEMO, "-"]])
def test_the_question_can_come_from_standard_input(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("which rank is slowest?\n"))
    execute(ask, *words)
    assert capsys.readouterr().out.startswith("Rank 1 is the slowest")


def test_several_runs_can_be_named_before_the_question(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(str(path) for path in demo_run().glob("*.pt.trace.json.gz"))
    execute(ask, *files, "which rank is slowest?")
    assert capsys.readouterr().out.startswith("Rank 1 is the slowest")


def test_nothing_asked_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    with pytest.raises(UsageError, match="there is no question"):
        execute(ask, DEMO)


def test_a_run_that_does_not_exist_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        execute(ask, str(tmp_path / "missing"), "why?")


def test_a_question_that_is_not_understood_can_be_told_by_the_exit_code() -> None:
    assert execute(ask, DEMO, "bake me a cake", "--strict") == 4
    assert execute(ask, DEMO, "bake me a cake") == 0
    assert execute(ask, DEMO, "why is it slow?", "--strict") == 0


def test_lines_of_standard_input_are_one_conversation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("how long is a step of rank 0?\n\nand rank 1?\n"))
    assert execute(ask, DEMO, "-") == 0
    printed = capsys.readouterr().out
    assert "> how long is a step of rank 0?" in printed
    assert "Understood as “How long is a step of rank 1?”." in printed


def test_json_of_several_questions_holds_all_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("why is it slow?\nwhy not?\n"))
    assert execute(ask, DEMO, "-", "--json", "--strict") == 4
    found = json.loads(capsys.readouterr().out)
    assert [each["intent"] for each in found["answers"]] == ["overview", "not_understood"]
