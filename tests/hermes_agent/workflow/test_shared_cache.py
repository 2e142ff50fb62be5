"""One cache for several diagnoses: at once, and while the time of day is set back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import DiagnosisReady, Event
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.kineto_text import span, write_trace

pytestmark = pytest.mark.usefixtures("index_only")

HOUR_S = 3600
AT_ONCE = 5
# Forks after the imports, all of which wait for the same moment; each child writes its answer to a file.
SEVERAL = """
import os, sys, time
from pathlib import Path
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
import hermes_agent.workflow.graph
trace, cache, out, number = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
together = time.monotonic() + 0.1
children = []
for place in range(number):
    child = os.fork()
    if not child:
        time.sleep(max(together - time.monotonic(), 0))
        answer = diagnose(Request((trace,), cache_dir=cache, workers=1), lambda _: None)
        (out / f"{place}.json").write_text(answer.model_dump_json(by_alias=True))
        os._exit(0)
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def recorded(path: Path, work_us: int = 800) -> Path:
    steps = [span(f"ProfilerStep#{n}", 1000 * n, 900, "user_annotation") for n in range(4)]
    return write_trace(path, [*steps, *(span("aten::mm", 1000 * n + 10, work_us) for n in range(4))])


def answered(trace: Path, cache: Path) -> tuple[Diagnosis, bool]:
    """The diagnosis, and whether it was a stored one."""
    events: list[Event] = []
    diagnosis = diagnose(Request((trace,), cache_dir=cache, workers=1), events.append)
    last = events[-1]
    assert isinstance(last, DiagnosisReady)
    return diagnosis, last.cached


def half_written(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if "part" in path.name]


def test_five_processes_on_one_cache_without_the_run_all_give_the_same_answer(tmp_path: Path) -> None:
    trace, cache, out = recorded(tmp_path / "rank0.json"), tmp_path / "cache", tmp_path / "out"
    out.mkdir()
    script = [sys.executable, "-c", SEVERAL, str(trace), str(cache), str(out), str(AT_ONCE)]

    ended = subprocess.run(script, capture_output=True, timeout=120, check=False)

    assert (ended.returncode, ended.stderr) == (0, b"")
    answers = [path.read_text() for path in out.iterdir()]
    assert len(answers) == AT_ONCE
    stored, was_stored = answered(trace, cache)
    assert was_stored
    assert set(answers) == {stored.model_dump_json(by_alias=True)}
    assert half_written(cache) == []


def test_a_clock_that_was_set_back_between_two_diagnoses_hides_no_change(tmp_path: Path) -> None:
    trace, cache = recorded(tmp_path / "rank0.json"), tmp_path / "cache"
    first, _ = answered(trace, cache)
    for path in [trace, *(each for each in cache.rglob("*") if each.is_file())]:
        os.utime(path, (time.time() + HOUR_S, time.time() + HOUR_S))  # as seen after the clock went back by an hour

    again, was_stored = answered(trace, cache)
    assert was_stored
    assert again == first

    recorded(trace, 700)  # as long as before and, by its time, older than what is stored
    changed, was_stored = answered(trace, cache)
    assert not was_stored
    assert changed.breakdown != first.breakdown
    assert answered(trace, cache) == (changed, True)


def test_a_clock_that_is_set_back_again_and_again_during_a_diagnosis_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, cache = recorded(tmp_path / "rank0.json"), tmp_path / "cache"
    usual, _ = answered(trace, tmp_path / "another cache")
    calls, begun_s = count(), time.time()
    monkeypatch.setattr(time, "time", lambda: begun_s - HOUR_S * next(calls))
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * begun_s) - 10**9 * HOUR_S * next(calls))

    first, _ = answered(trace, cache)

    assert next(calls) > 0
    assert first == usual
    assert answered(trace, cache) == (usual, True)
    assert half_written(cache) == []
