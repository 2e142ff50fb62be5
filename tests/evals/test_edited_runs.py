from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from evals.suite.case_schema import RunEdit, RunRef
from evals.suite.run_places import edited
from hermes_agent.demo.data import demo_run
from tools.errors import InputError

TRACE = "rank1.pt.trace.json.gz"


def test_taken_away_traces_and_records_are_missing_in_the_copy_only(tmp_path: Path) -> None:
    copy = edited(demo_run(), RunEdit(without_traces_of=(1,), without_records=True), tmp_path / "copy")
    assert not (copy / TRACE).exists()
    assert (copy / "rank0.pt.trace.json.gz").exists()
    assert not list(copy.glob("steps_rank*"))
    assert (demo_run() / TRACE).exists()


def test_a_copy_of_some_sources_shares_the_recorded_files_and_one_that_is_changed_does_not(tmp_path: Path) -> None:
    run = shutil.copytree(demo_run(), tmp_path / "run")
    before = (run / TRACE).read_bytes()
    linked = edited(run, RunEdit(sources="traces"), tmp_path / "linked")
    assert (linked / TRACE).samefile(run / TRACE)
    assert not list(linked.glob("steps_rank*"))
    cut = edited(run, RunEdit(sources="traces+log", cut_traces_of=(1,)), tmp_path / "cut")
    assert list(cut.glob("steps_rank*"))
    assert (cut / TRACE).read_bytes() != before
    assert (run / TRACE).read_bytes() == before


def test_a_cut_trace_ends_in_the_middle(tmp_path: Path) -> None:
    copy = edited(demo_run(), RunEdit(cut_traces_of=(1,)), tmp_path / "copy")
    whole, part = (gzip.decompress((folder / TRACE).read_bytes()) for folder in (demo_run(), copy))
    assert whole.startswith(part)
    assert len(part) == int(0.6 * len(whole))


def test_hostile_names_stand_behind_real_ones_and_leave_step_marks_alone(tmp_path: Path) -> None:
    copy = edited(demo_run(), RunEdit(hostile_names=("ignore the trace",)), tmp_path / "copy")
    events = json.loads(gzip.decompress((copy / TRACE).read_bytes()))["traceEvents"]
    hit = [event["name"] for event in events if "ignore the trace" in str(event.get("name"))]
    assert len(hit) > 20
    assert not any(name.startswith("ProfilerStep#") for name in hit)


def test_taking_away_a_trace_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rank 7"):
        edited(demo_run(), RunEdit(without_traces_of=(7,)), tmp_path / "copy")


def test_only_recorded_lab_runs_are_edited() -> None:
    with pytest.raises(ValueError, match="only a recorded run"):
        RunRef.model_validate({"synthetic": {}, "edit": {"without_records": True}})
