"""``hermes-dx show``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_agent.cli.commands import ask, show
from hermes_agent.demo.data import demo_run
from tests.hermes_agent.cli.execution import execute
from tools.errors import UsageError

DEMO = str(demo_run())


@pytest.mark.usefixtures("commands_cache")
def test_a_figure_is_measured_again_and_its_rows_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(show, "E1", DEMO) == 0
    out = capsys.readouterr().out
    assert out.startswith("E1 step time ms")
    assert ", the same" in out
    assert "Rows behind it, all 10:" in out


@pytest.mark.usefixtures("commands_cache")
def test_json_holds_both_figures_and_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    execute(show, "E1", DEMO, "--json")
    record = json.loads(capsys.readouterr().out)
    assert record["agrees"] is True
    assert record["again"] == pytest.approx(107.6, abs=1.0)
    assert record["table"]["total"] == len(record["table"]["rows"]) == 10


def test_without_an_id_one_sentence_says_what_to_type() -> None:
    with pytest.raises(UsageError, match="type what to show: hermes-dx show E3"):
        execute(show)


@pytest.mark.usefixtures("commands_cache")
def test_without_a_run_the_latest_diagnosis_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    execute(ask, DEMO, "why is it slow?")
    capsys.readouterr()
    assert execute(show, "A1") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("A1 Move heavy transforms out of the training loop")
    assert printed.err == f"hermes-dx: A1 of the last diagnosis made in this folder, of {demo_run().resolve()}\n"


@pytest.mark.usefixtures("commands_cache")
def test_a_diagnosis_made_in_another_folder_is_not_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(ask, DEMO, "why is it slow?")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(UsageError, match=r"made in .*other is in the cache .*; name the run: hermes-dx show"):
        execute(show, "E1")
    assert execute(show, "E1", DEMO) == 0


def test_without_any_diagnosis_the_run_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match="hermes-dx show E1 RUN"):
        execute(show, "E1")


@pytest.mark.usefixtures("commands_cache")
def test_an_unknown_id_names_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'E999'.*evidence E1 to E"):
        execute(show, "E999", DEMO)


@pytest.mark.usefixtures("commands_cache")
def test_a_selection_without_a_run_is_refused() -> None:
    with pytest.raises(UsageError, match="need a run"):
        execute(show, "E1", "--ranks", "0")


@pytest.mark.parametrize("run", [[DEMO], []])
def test_an_id_that_ask_printed_is_known_to_show(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: list[str]
) -> None:
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(own_cache))
    execute(ask, DEMO, "breakdown of rank 1", "--json")
    asked = json.loads(capsys.readouterr().out)
    last = asked["evidence"][-1]
    execute(show, last["id"], *run, "--json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["id"] == last["id"]
    assert shown["agrees"] is True
    assert shown["again"] == pytest.approx(last["value"])
    execute(ask, DEMO, "breakdown of rank 0", "--json")
    again = {each["id"]: each for each in json.loads(capsys.readouterr().out)["evidence"]}
    assert all(each == again.get(each["id"], each) for each in asked["evidence"])
