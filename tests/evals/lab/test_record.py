"""Recording for real and small."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

import pytest

from evals.lab.job import healthy, jobs_of_faults
from evals.lab.launch import LaunchError, launch
from evals.lab.record import record
from evals.lab.scenarios import Plan, with_options
from tools.sources.monitor.reader import read_monitor

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="PyTorch (extra lab) is not installed")


@needs_torch
def test_a_recorded_pair_holds_traces_logs_monitor_and_label(tmp_path: Path) -> None:
    (job,) = jobs_of_faults(["heavy_transform"], "images-strong")
    record(job, tmp_path, lambda _: None, measured_steps=3)
    folder = tmp_path / job.name
    for side in ("slow", "fixed"):
        run = folder / side
        for rank in (0, 1):
            trace = json.loads(gzip.decompress((run / f"rank{rank}.pt.trace.json.gz").read_bytes()))
            names = [event["name"] for event in trace["traceEvents"]]
            steps = [name for name in names if name.startswith("ProfilerStep#")]
            assert steps == [f"ProfilerStep#{step}" for step in range(8, 11)]
            log = gzip.decompress((run / f"steps_rank{rank}.jsonl.gz").read_bytes()).splitlines()
            assert [json.loads(line)["step"] for line in log] == list(range(11))
        records = read_monitor(run)
        assert sorted(records.steps["rank"].unique()) == [0, 1]
        assert len(records.steps) == 22
    measured = json.loads((folder / "measured.json").read_text())
    assert measured["last_loss"]["slow"] == pytest.approx(measured["last_loss"]["fixed"], rel=1e-4)


@needs_torch
@pytest.mark.parametrize("name", ["tokens", "experts", "stages"])
def test_every_workload_trains(name: str, tmp_path: Path) -> None:
    scenario = with_options(healthy(name))
    launched = launch(scenario, Plan(scenario.training, tmp_path, scenario.ranks, profile=False, measured_steps=1))
    assert len(launched.steps_ms) == 5
    assert 1.0 < launched.loss < 10.0


@needs_torch
def test_a_training_that_fails_is_reported_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "data0").write_text("a file where a folder has to be")
    scenario = with_options(healthy("images"))
    with pytest.raises(LaunchError, match="of the recorded training failed"):
        launch(scenario, Plan(scenario.training, tmp_path, scenario.ranks, profile=False, measured_steps=1))
