"""The verdict that a training prints at its end."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.monitor.session import Monitor
from hermes_agent.monitor.verdict import LINE_CHARS, described, verdict
from tests.hermes_agent.monitor.monitored import options, start_script
from tools.sources.monitor.reader import read_monitor

LOOP = """
import sys, time
from hermes_agent import monitor

monitor.start(sys.argv[1], verdict=True)
batches = monitor.steps([1] * 40)
assert len(batches) == 40 and batches.count(1) == 40
for batch in batches:
    time.sleep(0.002)
"""
IN_TWO_LINES = LOOP.replace("monitor.start(sys.argv[1], verdict=True)\n", "")


@pytest.fixture
def home(shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands that are started have the cache of the tests and no settings."""
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(shared_cache))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RANK", "0")
    return tmp_path


def test_the_lines_and_the_summary_are_the_diagnosis(demo_diagnosis: Diagnosis) -> None:
    record = json.loads(demo_diagnosis.model_dump_json(by_alias=True))
    found = described(record, Path("run"))
    lines = found.text.splitlines()
    cause = demo_diagnosis.causes[0]
    assert lines[0].startswith("hermes-dx: PROBLEM: Top bottleneck: heavy data transforms on rank 1 cost 55.8 ms of")
    assert lines[1].startswith(
        "  1. Heavy data transforms (rank 1): 55.8 ms per step, 51.7 %, confidence 0.95. Fix: Move"
    )
    assert lines[2:] == ["  More: hermes-dx diagnose run -v"]
    assert "[E" not in found.text
    assert demo_diagnosis.step_time_ms is not None
    assert demo_diagnosis.step_time_ms.unprofiled is not None
    assert found.summary == {
        "hermes/verdict": "problem",
        "hermes/headline": lines[0].removeprefix("hermes-dx: PROBLEM: "),
        "hermes/step_ms": demo_diagnosis.step_time_ms.unprofiled.median,
        "hermes/cause": "slow_data_processing",
        "hermes/cause_ms_per_step": cause.impact_ms_per_step,
        "hermes/cause_pct": cause.impact_pct,
        "hermes/confidence": cause.confidence,
        "hermes/predicted_step_ms": demo_diagnosis.advice[0].predicted_step_ms,
    }


def test_names_of_a_run_cannot_act_on_the_terminal(demo_diagnosis: Diagnosis) -> None:
    record = json.loads(demo_diagnosis.model_dump_json(by_alias=True))
    record["headline"] = "\x1b[2J" + "x" * 10_000 + "\n" * 10
    record["causes"] *= 50
    lines = described(record, Path("run")).text.split("\n")
    assert len(lines) == 5
    assert all(line.isprintable() and len(line) <= LINE_CHARS for line in lines)


def test_the_lead_of_an_inconclusive_run_says_what_to_measure(demo_diagnosis: Diagnosis) -> None:
    record = json.loads(demo_diagnosis.model_dump_json(by_alias=True))
    record |= {"verdict": "inconclusive", "causes": [], "advice": [], "next_measurements": ["profile RUN_FOLDER"]}
    record["step_time_ms"] = None
    found = described(record, Path("run"))
    assert "  To decide it: profile run" in found.text.splitlines()
    assert set(found.summary) == {"hermes/verdict", "hermes/headline"}


def test_a_run_without_records_and_a_slow_diagnosis_end_in_one_sentence(home: Path) -> None:
    without = verdict(home / "empty")
    assert without.text.count("\n") == 0
    assert without.text.startswith("hermes-dx: no verdict: ")
    assert "empty: there is no such file or folder" in without.text
    assert without.summary == {}
    begun = time.monotonic()
    slow = verdict(home, limit_s=0.01)
    assert slow.text == f"hermes-dx: no verdict: the diagnosis took longer than 0.01 s; run hermes-dx diagnose {home}"
    assert time.monotonic() - begun < 30.0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("echo '{\"verdict\": '", "Expecting value"),
        ("kill -INT $PPID; sleep 30", "interrupted"),
        ("exit 7", "exit code 7"),
    ],
)
def test_a_damaged_answer_an_interrupt_and_a_failure_end_in_one_sentence(
    answer: str, reason: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{answer}\n")
    python.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(python))
    begun = time.monotonic()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        text = verdict(home).text
    finally:
        signal.signal(signal.SIGINT, before)
    assert text.startswith(f"hermes-dx: no verdict: {reason}")
    assert "\n" not in text
    assert time.monotonic() - begun < 20.0


def failing_step(monitor: Monitor) -> None:
    monitor.step()
    raise ValueError("the loss is nan")


def test_other_ranks_and_failed_trainings_give_none(
    run_folder: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Monitor(run_folder, rank=1, options=options(), verdict=True)
    other.step()
    other.close()
    failed = Monitor(run_folder, rank=0, options=options(), verdict=True)
    with pytest.raises(ValueError, match="loss"), failed:
        failing_step(failed)
    assert capsys.readouterr().err == ""
    assert other.summary == failed.summary == {}


def test_a_closed_standard_error_does_not_fail_the_training(
    run_folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    ended = Monitor(run_folder, rank=0, options=replace(options(), verdict_limit_s=0.01), verdict=True)
    ended.step()
    ended.close()
    broken = Monitor(run_folder, rank=1, options=options())
    monkeypatch.setattr(broken, "_view", None)
    broken.step()
    assert not broken.on


def test_a_loop_of_two_lines_ends_with_its_verdict_once(run_folder: Path, home: Path) -> None:
    process = start_script(IN_TWO_LINES, HERMES_DX_RUN_FOLDER=str(run_folder))
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "")
    assert errors.startswith("hermes-dx: ")
    assert "no verdict" not in errors
    assert errors.count("More: hermes-dx diagnose") == 1
    steps = read_monitor(run_folder).steps
    assert list(steps["step"]) == list(range(40))
    assert (steps["wall_ms"] >= 2.0).all()


def test_a_loop_that_fails_ends_with_its_own_error_alone(run_folder: Path, home: Path) -> None:
    process = start_script(LOOP + "    assert batch == 2, 'a bad batch'\n", str(run_folder))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert errors.rstrip().endswith("a bad batch")
    assert "hermes-dx" not in errors
