"""The model's words on top of a stored diagnosis, and the flag that keeps them out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_agent.cli.main import main
from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import DiagnosisReady, DiagnosisWorded, Emit
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.hermes_agent.llm.fake_endpoint import Answer, Body, said, serving
from tests.hermes_agent.statements.slow_loader import Listener, answer_of, statement


def in_other_words(diagnosis: Diagnosis, _: Emit) -> Diagnosis:
    return diagnosis.model_copy(update={"answer": ["Other words."], "answer_by": "model"})


def test_what_is_stored_is_always_the_answer_from_templates(index_only: Path) -> None:
    request = Request(paths=(demo_run(),), cache_dir=index_only)
    listener = Listener()
    first = diagnose(request, listener, in_other_words)
    again = diagnose(request, Listener())
    once_more = diagnose(request, Listener(), in_other_words)
    assert (first.answer, first.answer_by) == (["Other words."], "model")
    assert again.answer_by == "template"
    assert again.answer[0] == first.headline
    assert once_more == first
    ready = [event for event in listener.events if isinstance(event, DiagnosisReady | DiagnosisWorded)]
    assert [type(event) for event in ready] == [DiagnosisReady, DiagnosisWorded]
    assert [event.diagnosis for event in ready] == [again, first]


def use_endpoint(monkeypatch: pytest.MonkeyPatch, folder: Path, cache: Path, url: str) -> None:
    monkeypatch.chdir(folder)
    for name, value in (
        ("HOME", str(folder)),
        ("HERMES_DX_CACHE_DIR", str(cache)),
        ("HERMES_DX_LLM_BASE_URL", url),
        ("HERMES_DX_LLM_MODEL", "tiny"),
    ):
        monkeypatch.setenv(name, value)


def first_figure(_: Body) -> Answer:
    """Cites the first figure, the average step."""
    return said(answer_of(statement("An average step takes {E1}.")))


def test_the_command_line_prints_the_models_answer_and_leaves_it_out_on_demand(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(first_figure) as endpoint:
        use_endpoint(monkeypatch, tmp_path, own_cache, endpoint.url)
        assert main(["diagnose", str(demo_run()), "--json"]) == 0
        with_model = json.loads(capsys.readouterr().out)
        assert main(["diagnose", str(demo_run()), "--json", "--no-llm"]) == 0
        without = json.loads(capsys.readouterr().out)
    assert len(endpoint.bodies) == 1
    assert (with_model["answer_by"], with_model["answer_model"]) == ("model", "tiny")
    assert with_model["answer"][: len(without["answer"])] == without["answer"]
    introduction, said = with_model["answer"][len(without["answer"]) :]
    assert introduction.startswith("In the words of tiny (figures checked against the evidence")
    assert said.startswith("An average step takes ")
    assert "filled in from the evidence" in with_model["notes"][-1]
    assert (without["answer_by"], without["answer_model"]) == ("template", "")
    assert without["headline"] == with_model["headline"] == without["answer"][0]
    assert without["evidence"] == with_model["evidence"]


def test_an_endpoint_that_is_down_costs_the_answer_nothing_but_a_line(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_endpoint(monkeypatch, tmp_path, own_cache, "http://127.0.0.1:9/v1")
    monkeypatch.setenv("HERMES_DX_LLM_MAX_RETRIES", "0")
    assert main(["diagnose", str(demo_run())]) == 0
    printed = capsys.readouterr().out
    assert "The answer was written from templates, not by the model" in " ".join(printed.split())
