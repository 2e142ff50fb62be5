"""Recording a fault, for real and small; and what the command line says."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

import pytest

from evals.lab.__main__ import main
from evals.lab.faults import FAULTS, fault
from evals.lab.launch import LaunchError, launch
from evals.lab.plan import Plan
from evals.lab.record import record

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="PyTorch (extra lab) is not installed")


@needs_torch
def test_a_recorded_pair_holds_traces_logs_and_label(tmp_path: Path) -> None:
    told: list[str] = []
    recorded = record(fault("slow_loader_one_rank"), tmp_path, told.append, measured_steps=3)
    for side in ("slow", "fixed"):
        for rank in (0, 1):
            trace = json.loads(gzip.decompress((recorded.folder / side / f"rank{rank}.pt.trace.json.gz").read_bytes()))
            names = [event["name"] for event in trace["traceEvents"]]
            assert [name for name in names if name.startswith("ProfilerStep#")] == [
                f"ProfilerStep#{step}" for step in range(8, 13)
            ]
            assert names.count("gloo:all_reduce") == 15
            log = (recorded.folder / side / f"steps_rank{rank}.jsonl").read_text().splitlines()
            assert [json.loads(line)["step"] for line in log] == list(range(13))
    measured = json.loads((recorded.folder / "measured.json").read_text())
    assert measured["last_loss"]["slow"] == measured["last_loss"]["fixed"]
    assert json.loads((recorded.folder / "label.json").read_text())["cause"] == "slow_data_processing"
    assert len(told) == 4


def test_a_training_that_fails_is_reported_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "data0").write_text("a file where a folder has to be")
    with pytest.raises(LaunchError, match="of the recorded training failed"):
        launch(Plan(fault("small_operators").fixed, tmp_path, profile=False, measured_steps=1))


def test_list_prints_every_fault_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[f.id, f"{f.cause}/{f.mechanism},"] for f in FAULTS]


def test_an_unknown_fault_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "rain"]) == 2
    assert "no fault 'rain'" in capsys.readouterr().err


@pytest.mark.skipif(HAS_TORCH, reason="PyTorch is installed here")
def test_recording_without_torch_says_what_to_install(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "small_operators", "--out", str(tmp_path)]) == 2
    assert "pip install '.[lab]'" in capsys.readouterr().err
