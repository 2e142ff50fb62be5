from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_agent.cli.commands import eval as command
from hermes_agent.cli.main import foreign_packages
from tests.hermes_agent.llm.fake_endpoint import said, serving
from tools.errors import HermesError

FAILED = 5
SMALL = {"ranks": 1, "steps": 2, "layers": 1}
TAGS = {"source": "synthetic", "kind": "cause", "family": "io"}
LOADER: dict[str, Any] = {
    "id": "small-loader",
    "what": "one rank with a slow loader",
    "run": {"synthetic": {**SMALL, "faults": [{"kind": "loader_single_process", "strength": 0.5}]}},
    "expected": {"verdict": ["problem"], "any_of": ["slow_data_processing/too_few_workers"], "ranks": [0]},
    "tags": TAGS,
}
WRONG = {**LOADER, "id": "wrongly-labelled", "expected": {"verdict": ["problem"], "any_of": ["rdma_retransmission"]}}
ABSENT = {
    "id": "absent",
    "what": "a real trace",
    "run": {"traces": "no/such/trace.json"},
    "expected": {"verdict": ["problem"]},
    "tags": {"source": "real", "kind": "cause"},
}


def _run(folder: Path, cases: list[dict[str, Any]], *words: str) -> int:
    (folder / "cases").mkdir(exist_ok=True)
    (folder / "cases" / "all.yaml").write_text(yaml.safe_dump({"cases": cases}), encoding="utf-8")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([*words, "--cases", str(folder / "cases"), "--jobs", "1"]))


def test_a_right_and_a_wrong_answer_are_told_apart_saved_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, report = tmp_path / "results.json", tmp_path / "report.md"
    assert _run(tmp_path, [LOADER, WRONG], "--json", str(saved), "--md", str(report)) == 0
    printed = capsys.readouterr().out
    assert "2 cases: 2 scored, 0 skipped, 0 failed" in printed
    assert "| without a miss " in printed
    assert "- `wrongly-labelled` (generated runs): top_1: expected rdma_retransmission" in printed
    results = {each["id"]: each for each in json.loads(saved.read_text(encoding="utf-8"))["cases"]}
    assert results["small-loader"]["scores"]["top_1"] == 1.0
    assert results["small-loader"]["scores"]["citation_support"] == 1.0
    assert results["small-loader"]["gain"]["measured"] > 1.2
    assert results["wrongly-labelled"]["scores"]["top_1"] == 0.0
    assert "`hermes-dx eval --json results.json --md report.md`" in report.read_text(encoding="utf-8")
    assert (tmp_path / "report_generated_runs_calibration.svg").read_text(encoding="utf-8").startswith("<svg")
    swapped = [{**LOADER, "expected": WRONG["expected"]}]
    assert _run(tmp_path, swapped, "--against", str(saved)) == FAILED
    assert "worse small-loader: top_1 1.00 -> 0.00" in capsys.readouterr().out


def test_a_suite_that_ran_nothing_has_failed_and_counts_what_it_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_TRACES", str(tmp_path / "nowhere"))
    assert _run(tmp_path, [ABSENT]) == FAILED
    caught = capsys.readouterr()
    assert "1 cases: 0 scored, 1 skipped, 0 failed" in caught.out
    assert "ran nothing" in caught.err


def test_a_missing_run_in_a_folder_that_exists_fails_the_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_TRACES", str(tmp_path))
    assert _run(tmp_path, [ABSENT, LOADER]) == FAILED
    assert "`absent` failed: the run of a case is missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no-such-case",), "no case matches"),
        (("--model", "gpt"), "no model profile"),
        (("--model", "replay:nowhere"), "no folder with recorded exchanges"),
        (("--model", "live", "--attempts", "0"), "attempts are none"),
        (("--against", "nowhere.json"), "cannot be read as saved results"),
        (("--json", "nowhere/results.json"), "there is no folder"),
    ],
)
def test_what_was_put_wrongly_is_an_error_before_any_case_runs(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(HermesError, match=said):
        _run(tmp_path, [LOADER], *words)


def test_a_recording_that_is_missing_for_a_case_fails_that_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exchanges").mkdir()
    assert _run(tmp_path, [LOADER], "--model", f"replay:{tmp_path / 'exchanges'}") == FAILED
    assert "no recorded exchange" in capsys.readouterr().out


def test_a_live_endpoint_is_asked_k_times_recorded_and_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exchanges, saved = tmp_path / "exchanges", tmp_path / "results.json"
    with serving(said("The network is broken and costs 77 ms.", prompt=40, completion=10)) as endpoint:
        monkeypatch.setenv("HERMES_DX_LLM_BASE_URL", endpoint.url)
        monkeypatch.setenv("HERMES_DX_LLM_MODEL", "some-model")
        assert _run(tmp_path, [LOADER], "--model", f"record:{exchanges}", "--attempts", "2", "--json", str(saved)) == 0
        asked = len(endpoint.bodies)
    recorded = json.loads(saved.read_text(encoding="utf-8"))
    use = recorded["cases"][0]["model"]
    assert (use["answer_by"], use["attempts"], use["passes"]) == ("template", 2, 2)
    assert use["calls"] == asked >= 2
    assert use["tokens"] == 50 * asked
    assert sorted(file.name for file in exchanges.iterdir()) == ["small-loader.2.jsonl", "small-loader.jsonl"]
    assert "model: pass^2 100 %" in capsys.readouterr().out
    assert _run(tmp_path, [LOADER], "--model", f"replay:{exchanges}", "--attempts", "2", "--json", str(saved)) == 0
    played = json.loads(saved.read_text(encoding="utf-8"))["cases"][0]
    assert played["model"]["tokens"] == use["tokens"]
    assert played["scores"] == recorded["cases"][0]["scores"]


def test_a_live_endpoint_may_be_asked_without_keeping_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(said("Nothing.")) as endpoint:
        monkeypatch.setenv("HERMES_DX_LLM_BASE_URL", endpoint.url)
        monkeypatch.setenv("HERMES_DX_LLM_MODEL", "some-model")
        assert _run(tmp_path, [LOADER], "--model", "live") == 0
        assert endpoint.bodies
    assert not list(tmp_path.glob("**/*.jsonl"))


def test_an_evaluation_of_another_project_is_told_in_one_sentence(tmp_path: Path) -> None:
    assert "another package called 'evals'" in foreign_packages(("evals",), tmp_path)
