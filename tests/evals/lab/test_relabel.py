"""Labels of recordings follow the registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.lab.__main__ import main
from evals.lab.job import jobs_of_faults, relabel
from evals.suite.labels import recorded_cases
from tools.errors import InputError

DEBUG = "distributed_debug/images-strong"


def recorded(out: Path, name: str, text: str) -> Path:
    for side in ("slow", "fixed", "run"):
        (out / name / side).mkdir(parents=True)
    file = out / name / "label.json"
    file.write_text(text, encoding="utf-8")
    return file


def test_an_old_label_is_written_again_and_a_present_or_foreign_one_is_not(tmp_path: Path) -> None:
    now = jobs_of_faults(["distributed_debug"], None)[0].label
    old = recorded(tmp_path, DEBUG, json.dumps({**now, "fixed_verdict": "healthy"}))
    broken = recorded(tmp_path, "healthy/images-usual", "{")
    small = jobs_of_faults(["small_operators"], None)[0]
    recorded(tmp_path, small.name, json.dumps(small.label))
    foreign = recorded(tmp_path, "gone/images-strong", "{}")
    assert relabel(tmp_path) == {
        DEBUG: "changed",
        "gone/images-strong": "unknown",
        "healthy/images-usual": "changed",
        "small_operators/images-strong": "same",
    }
    assert json.loads(old.read_text(encoding="utf-8")) == now
    assert json.loads(broken.read_text(encoding="utf-8"))["verdict"] == "healthy"
    assert foreign.read_text(encoding="utf-8") == "{}"
    assert "changed" not in relabel(tmp_path).values()


def test_the_command_tells_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path, DEBUG, "{}")
    assert main(["labels", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 changed, 0 as they were, 0 unknown"


def test_a_folder_without_recordings_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="holds no recordings"):
        relabel(tmp_path)
    assert main(["labels", "--out", str(tmp_path)]) == 3
    assert "holds no recordings" in capsys.readouterr().err


def test_a_mended_world_with_another_loss_is_no_healthy_case(tmp_path: Path) -> None:
    recorded(tmp_path, DEBUG, "{}")
    relabel(tmp_path)
    _, fixed, _ = recorded_cases((tmp_path,), "lab")
    assert (fixed.tags.kind, fixed.expected.verdict) == ("unlabelled", ())
    assert fixed.expected.not_causes == ("environment_configuration",)
