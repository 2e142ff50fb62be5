from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from evals.suite.inspect_adapter import RESULT, hermes_task
from tests.evals.fake_inspect import FakeModel, State, modules
from tools.errors import UsageError

FALSE = "The network is broken and costs 77 ms."


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeModel:
    fake = FakeModel(FALSE)
    for name, module in modules(fake).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    return fake


async def _carried_out(task: Any) -> tuple[State, list[Any]]:  # noqa: ANN401 (a Task of inspect_ai)
    state = await task.solver(State(task.dataset[0].id), None)
    return state, [await score(state, None) for score in task.scorer]


async def test_a_case_is_scored_as_by_the_command_without_asking_the_model(model: FakeModel) -> None:
    task = hermes_task(["demo-slow"])
    assert task.dataset[0].target == ["slow_data_processing/heavy_transform"]
    state, scores = await _carried_out(task)
    assert state.output.completion.startswith("problem: slow_data_processing")
    assert [score and score.value for score in scores] == [1.0, 1.0, 1.0, None, 1.0, 1.0]
    assert model.asked == []


async def test_the_model_of_the_task_is_asked_and_what_is_false_does_not_stand(model: FakeModel) -> None:
    state, scores = await _carried_out(hermes_task(["demo-slow"], ask_model=True))
    use = state.metadata[RESULT]["model"]
    assert len(model.asked) == use["calls"] == 2
    assert (use["answer_by"], use["tokens"]) == ("template", 100)
    assert scores[0].value == 1.0


def test_without_inspect_ai_one_sentence_says_what_to_install() -> None:
    if importlib.util.find_spec("inspect_ai") is not None:
        pytest.skip("inspect_ai is installed")
    with pytest.raises(UsageError, match="extra: pip install"):
        hermes_task(["demo-slow"])
