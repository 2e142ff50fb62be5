"""``trainer_state.json`` gives the summary of the whole training, and no steps."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.errors import InputError
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.sources.trainer_state.reader import read_state
from tools.views.profile import Profile

SUMMARY = {"step": 200, "train_runtime": 112.0, "train_samples_per_second": 914.3, "train_steps_per_second": 1.786}
LOSSES = [{"epoch": at / 200, "loss": 2.0, "step": at} for at in range(10, 201, 10)]
EVALUATIONS = [{"eval_loss": 2.0, "eval_runtime": 7.0, "step": at} for at in (100, 200)]


def state(*records: dict[str, float], steps: int = 200) -> str:
    return json.dumps({"best_metric": None, "epoch": 1.0, "global_step": steps, "log_history": list(records)}, indent=2)


def test_the_summary_gives_the_mean_step_and_the_share_of_evaluations(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text(state(*LOSSES, *EVALUATIONS, SUMMARY))
    run = load_run([tmp_path])
    assert run.job_log is not None
    assert run.job_log.steps.empty
    assert [(each.format, each.status) for each in run.sources] == [("Trainer state", "complete")]
    profile = Profile(run)
    mean = measure(profile, "stated_mean_step_ms")
    assert mean.value == pytest.approx(112_000.0 / 200)
    assert "line 23" in mean.selector  # the last of 20 losses, two evaluations and the summary
    assert measure(profile, "stated_evaluation_pct").value == pytest.approx(12.5)
    assert [(each.value, each.line) for each in run.job_log.evaluation_times] == [("7.0", 21), ("7.0", 22)]


def test_of_several_checkpoints_the_state_with_the_most_steps_is_used(tmp_path: Path) -> None:
    for steps in (100, 200):
        folder = tmp_path / f"checkpoint-{steps}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(
            state(*LOSSES, {**SUMMARY, "train_runtime": 0.5 * steps}, steps=steps)
        )
    assert measure(Profile(load_run([tmp_path])), "stated_mean_step_ms").value == pytest.approx(500.0)
    assert measure(Profile(load_run([tmp_path])), "stated_runtime_s").value == pytest.approx(100.0)


def test_a_packed_file_reads_like_a_plain_one(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json.gz").write_bytes(gzip.compress(state(SUMMARY).encode()))
    assert measure(Profile(load_run([tmp_path])), "stated_mean_step_ms").value == pytest.approx(560.0)


def test_a_state_in_the_middle_of_a_training_says_what_holds_times(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(state(*LOSSES))
    with pytest.raises(InputError, match="holds no summary of the training"):
        read_state(path)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(state(SUMMARY)) - 1))
def test_a_cut_file_is_refused_with_its_name(tmp_path_factory: pytest.TempPathFactory, at: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "trainer_state.json"
    path.write_text(state(SUMMARY)[:at])
    with pytest.raises(InputError, match="trainer_state"):
        read_state(path)
