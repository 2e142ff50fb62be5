from __future__ import annotations

from pathlib import Path

import pytest

from evals.suite.case_schema import RunRef
from evals.suite.models import ModelChoice, model_choice
from evals.suite.run_places import Places, locate
from hermes_agent.llm.budget import Budget
from hermes_agent.llm.recording import RecordingModel
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.statements.answer import write_answer
from hermes_agent.workflow.diagnose import diagnose
from tests.hermes_agent.llm.scripted import ScriptedModel
from tools.errors import ModelError, UsageError

RUN = RunRef.model_validate({"synthetic": {"ranks": 1, "steps": 2, "layers": 1}})
FALSE = "The step takes 3 ms because the network is broken."


def _diagnosis(folder: Path) -> Diagnosis:
    located = locate(RUN, Places(folder, (folder,)), folder / "run")
    return diagnose(Request(paths=(located.path,)), lambda event: None)


def _record(diagnosis: Diagnosis, file: Path) -> None:
    model = RecordingModel(ScriptedModel([FALSE, FALSE]), file)
    write_answer(diagnosis, model, Budget(max_calls=5), lambda event: None)


def test_a_recording_made_from_one_copy_of_a_run_is_played_on_another(tmp_path: Path) -> None:
    first, second = _diagnosis(tmp_path / "a"), _diagnosis(tmp_path / "b")
    _record(first, tmp_path / "case.jsonl")
    written, use = ModelChoice(False, tmp_path).written("case", second)
    assert use.answer_by == "template"
    assert use.calls == 2
    assert written.answer == second.answer


def test_a_recording_of_another_diagnosis_does_not_match(tmp_path: Path) -> None:
    diagnosis = _diagnosis(tmp_path)
    _record(diagnosis, tmp_path / "case.jsonl")
    other = diagnosis.model_copy(update={"headline": "Something else.", "verdict": "problem"})
    with pytest.raises(ModelError, match="record the case again"):
        ModelChoice(False, tmp_path).written("case", other)


def test_a_profile_is_live_recorded_or_replayed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert model_choice(f"replay:{tmp_path}") == ModelChoice(False, tmp_path)
    with pytest.raises(UsageError, match="no model profile"):
        model_choice("replay:")
    with pytest.raises(UsageError, match="no model is configured"):
        model_choice(f"record:{tmp_path}")
    monkeypatch.setenv("HERMES_DX_LLM_MODEL", "some-model")
    assert model_choice(f"record:{tmp_path}", 3) == ModelChoice(True, tmp_path, 3)
    assert model_choice("live") == ModelChoice(True, None)
