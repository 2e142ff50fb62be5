"""Traces without a backward pass and an optimizer are not advised as a training."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.kineto_text import JsonEvent, span, write_trace
from tools.knowledge.taxonomy import causes
from tools.knowledge.untrained import OF_TRAINING, fitting, without_training
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.views.training_seen import inference_name, work_seen

OPERATORS = ("embedding", "linear", "addmm", "view", "softmax", "matmul", "add", "gelu", "layer_norm", "argmax", "cat")
STEPS = 8


def events(*more: str, operators: int = len(OPERATORS), mark: str = "ProfilerStep#{}") -> list[JsonEvent]:
    """Steps of a forward pass, each with these names as well."""
    found = []
    for step in range(STEPS):
        begin = 10_000.0 * step
        found.append(span(mark.format(step), begin, 9_900.0, "user_annotation"))
        for at, name in enumerate((*(f"aten::{each}" for each in OPERATORS[:operators]), *more)):
            found.append(span(name, begin + 100.0 + 700.0 * at, 650.0))
    return found


def profile_of(tmp_path: Path, found: list[JsonEvent]) -> Profile:
    return Profile(load_run([write_trace(tmp_path / "trace.json", found)]))


@pytest.mark.parametrize(
    ("more", "work"),
    [
        (("autograd::engine::evaluate_function: MmBackward0",), "training"),
        (("Optimizer.step#AdamW.step",), "training"),
        (("torch/nn/modules/module.py(2658): <lambda>",), "no training step"),
        (("torch/autograd/grad_mode.py(84): __enter__",), "no training step"),
        (("torch/autograd/function.py(39): save_for_backward",), "no training step"),
        (("RegisterPostBackwardFunction",), "no training step"),
        (("RegisterPostBackwardFunctionBackward",), "training"),
        (("decode_step",), "inference"),
        (("vllm/worker/model_runner.py(12): execute_model",), "inference"),
        (("<built-in method decode of bytes object>",), "no training step"),
        ((), "no training step"),
    ],
)
def test_the_kind_of_work_is_known_by_names(tmp_path: Path, more: tuple[str, ...], work: str) -> None:
    assert work_seen(profile_of(tmp_path, events(*more))) == work


def test_hardly_any_operators_show_no_kind_of_work(tmp_path: Path) -> None:
    assert work_seen(profile_of(tmp_path, events(operators=4))) == "unknown"


def test_the_answer_on_inference_names_it_and_speaks_of_no_training(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.json", events("generate"))
    assert inference_name(Profile(load_run([path]))) == "generate"
    found = diagnose(Request(paths=(path,), cache_dir=tmp_path / "cache"), lambda _: None)
    said = [*found.answer, *(lead.decide_by for lead in found.leads), *(each.how for each in found.advice)]
    assert "No training step found" in found.answer[1]
    assert "`generate`" in found.answer[1]
    assert not [text for text in said if "training" in text and text != found.answer[1]]


def test_what_remains_of_the_advice_is_not_about_training() -> None:
    known = [each for cause in causes().values() for each in cause.advice]
    kept = [change for each in known if (change := fitting(each)) is not None]
    assert 0 < len(kept) < len(known)
    for each in kept:
        assert each.how
        assert each.verify
        said = " ".join((each.optimization, each.how, each.verify, each.risk))
        assert not OF_TRAINING.search(said), said
        assert "training" not in said.lower(), said


def test_a_clause_ends_outside_of_code_only() -> None:
    assert without_training("the training thread waits") == "the main thread waits"
    packet = next(each for each in causes()["operator_dispatch"].advice if "CUDA graphs" in each.how)
    change = fitting(packet)
    assert change is not None
    assert (
        change.how == "`model = torch.compile(model)`; where shapes are static `mode='reduce-overhead'` (CUDA graphs)"
    )


def test_a_real_pipeline_of_transformers_is_inference(traces: Path) -> None:
    assert work_seen(Profile(load_run([traces / "real/timesformer_h100.json.gz"]))) == "inference"
