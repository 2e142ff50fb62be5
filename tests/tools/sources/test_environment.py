"""The environment next to a trace becomes part of the run, and never more than that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_agent.cli.commands.env import environment
from tests.asked import ask
from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.judgement.ranking import ranking
from tools.sources.load import load_run
from tools.views.profile import Profile


def traced(folder: Path) -> Path:
    write_trace(
        folder / "rank0.json", [span("ProfilerStep#1", 0, 50), span("op", 10, 20)], distributedInfo=rank_info(0)
    )
    return folder


def test_a_debug_variable_is_found_and_named(tmp_path: Path) -> None:
    written = environment({"CUDA_LAUNCH_BLOCKING": "1", "HOME": "/home/somebody", "NCCL_API_KEY": "x"})
    (traced(tmp_path) / "env.json").write_text(json.dumps(written))
    run = load_run([tmp_path])
    assert run.ranks[0].metadata["CUDA_LAUNCH_BLOCKING"] == "1"
    assert "HOME" not in run.ranks[0].metadata
    assert "NCCL_API_KEY" not in run.ranks[0].metadata
    check = ask(Profile(run), "cpu.environment")
    assert [finding.cause for finding in check.findings] == ["environment_configuration"]


def test_the_values_of_secrets_do_not_become_part_of_the_run(tmp_path: Path) -> None:
    whole = {"HF_TOKEN": "hf_1", "WANDB_API_KEY": "w1", "AWS_SECRET_ACCESS_KEY": "a1", "DB_PASSWORD": "p1"}
    harmless = {"TOKENIZERS_PARALLELISM": "true", "OMP_NUM_THREADS": "8"}
    address = {"HTTPS_PROXY": "http://me:a/b@c@proxy:8080"}
    (tmp_path / "env.json").write_text(json.dumps({"variables": whole | harmless | address}))
    info = rank_info(0)
    events = [span("ProfilerStep#1", 0, 50), span("op", 10, 20)]
    write_trace(tmp_path / "rank0.json", events, distributedInfo=info, MLFLOW_TRACKING_TOKEN="m1", MODEL="tiny")
    found = load_run([tmp_path]).ranks[0].metadata
    assert {name: found[name] for name in whole} == dict.fromkeys(whole, "(secret)")
    assert found["MLFLOW_TRACKING_TOKEN"] == "(secret)"
    assert found["MODEL"] == "tiny"
    assert {name: found[name] for name in harmless} == harmless
    assert found["HTTPS_PROXY"] == "http://(secret)@proxy:8080"


def test_harmless_settings_are_clean_and_none_at_all_is_an_open_question(tmp_path: Path) -> None:
    assert ask(Profile(load_run([traced(tmp_path)])), "cpu.environment").status == "cannot_answer"
    (tmp_path / "env.json").write_text(json.dumps(environment({"OMP_NUM_THREADS": "8"})))
    assert ask(Profile(load_run([tmp_path])), "cpu.environment").status == "clean"


@pytest.mark.parametrize("of_file", [True, False], ids=["the file", "its folder"])
def test_an_environment_alone_is_a_run_that_is_inconclusive_and_asks_for_a_trace(tmp_path: Path, of_file: bool) -> None:
    file = tmp_path / "env.json"
    file.write_text(json.dumps(environment({"OMP_NUM_THREADS": "8"}) | {"versions": {"torch": "2.13.0"}}))
    run = load_run([file if of_file else tmp_path])
    assert [(source.path.name, source.status) for source in run.sources] == [("env.json", "complete")]
    ranked = ranking(Profile(run))
    assert ranked.verdict == "inconclusive"
    assert "a trace of a few steps" in ranked.needs


def test_a_file_that_is_no_environment_is_left_out_with_a_note(tmp_path: Path) -> None:
    (traced(tmp_path) / "env.json").write_text('{"variables": {"A_B": 3}}')
    run = load_run([tmp_path])
    assert any("env.json was left out" in note for note in run.notes)


@pytest.mark.parametrize(
    "content",
    [
        b'{"variables": {"A_B": "\xff\xfe"}}',
        "{}".encode("utf-16"),
        b'{"other": ' + b"[" * 50_000,
        b'{"other": ' + b'{"a":' * 50_000,
        b"\x00",
        b"",
    ],
    ids=["latin", "utf-16", "brackets", "braces", "zero", "empty"],
)
def test_an_environment_of_any_bytes_is_left_out_with_a_note(tmp_path: Path, content: bytes) -> None:
    (traced(tmp_path) / "env.json").write_bytes(content)
    run = load_run([tmp_path])
    assert any("env.json was left out" in note for note in run.notes)
    assert len(run.ranks[0].events) == 2


def test_a_trace_that_is_named_as_an_environment_and_given_by_its_path_is_read_as_a_trace(tmp_path: Path) -> None:
    path = traced(tmp_path) / "rank0.json"
    run = load_run([path.rename(tmp_path / "env.json")])
    assert [len(each.steps) for each in run.ranks] == [1]
