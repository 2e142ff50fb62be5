"""Of a cut trace nothing is claimed: the answer says that it is cut, where, and what to do."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from evals.fuzz.cuts import answer_of, cut, diagnosed, outcomes, overwritten
from hermes_agent.cli.main import main
from hermes_agent.demo.data import demo_run
from hermes_agent.report.text import render_text
from tests.synthetic import run_of
from tools.analyzers.registry import all_checks
from tools.errors import ExitCode, UsageError
from tools.run.model import CutTrace
from tools.sources.load import load_run
from tools.views.profile import Profile

RESNET = "kineto/resnet50_workers0.pt.trace.json.gz"
END_MARK = b'"Record Window End"'


@pytest.fixture
def half_run(tmp_path: Path) -> Path:
    """The bundled run of two ranks, the trace of rank 1 cut at 60 %."""
    run = Path(shutil.copytree(demo_run(), tmp_path / "run"))
    trace = next(run.glob("rank1*"))
    trace.write_bytes(cut(trace.read_bytes(), 0.6))
    return run


def test_a_share_is_never_given_of_the_first_half_of_a_trace(traces: Path, tmp_path: Path) -> None:
    path = tmp_path / "resnet50.pt.trace.json.gz"
    path.write_bytes((traces / RESNET).read_bytes()[:600_000])

    said = diagnosed(path)

    assert said.verdict == "inconclusive"
    assert (said.causes, said.breakdown, said.kernel_classes, said.leads, said.advice) == ([], [], [], [], [])
    assert said.step_time_ms is None
    assert said.run.cut_ranks == [0]
    assert {check.status for check in said.checks} == {"cannot_answer"}
    assert all("cut" in check.reason and "copy the files again" in check.needs for check in said.checks)
    assert said.headline.startswith(
        "The trace `resnet50.pt.trace.json.gz` of rank 0 is cut: its events end after 24.4 MB"
    )
    assert "copy the files again" in said.answer[1]
    assert "cut, nothing is measured" in render_text(said)
    assert {each.metric for each in said.evidence} == {"cut_trace_events", "cut_trace_text_bytes"}


def test_a_trace_that_is_damaged_in_the_middle_is_not_said_to_end_there(tmp_path: Path) -> None:
    trace = tmp_path / "rank0.json"
    trace.write_bytes(overwritten(gzip.decompress(next(demo_run().glob("rank0*")).read_bytes()), 0.5))

    said = diagnosed(trace)

    assert said.headline.startswith("The trace `rank0.json` of rank 0 is damaged in the middle: ")
    assert "others are missing" in said.headline
    assert {each.metric for each in said.evidence} == {"cut_trace_events", "cut_trace_text_bytes"}


def test_a_cut_rank_is_not_compared_with_whole_ones(half_run: Path) -> None:
    said, whole = diagnosed(half_run), diagnosed(demo_run())

    assert (said.run.ranks, said.run.cut_ranks) == ([0], [1])
    assert said.breakdown == [row for row in whole.breakdown if row.rank == 0]
    assert any("rank 1 is cut" in sentence and "left out" in sentence for sentence in said.answer[:3])
    reasons = {check.reason for check in said.checks if check.status == "cannot_answer"}
    assert "only one rank's trace is whole, and a cut one is not compared with it" in reasons
    with pytest.raises(UsageError, match="rank 1 is cut"):
        load_run([half_run]).rank(1)


def test_a_cut_behind_the_last_event_changes_nothing(tmp_path: Path) -> None:
    text = gzip.decompress(next(demo_run().glob("rank0*")).read_bytes())
    whole, shorter = tmp_path / "whole" / "rank0.json", tmp_path / "cut" / "rank0.json"
    for path, content in ((whole, text), (shorter, text[: text.index(b"}", text.index(END_MARK)) + 1])):
        path.parent.mkdir()
        path.write_bytes(content)

    assert load_run([shorter]).sources[0].status == "partial"
    assert answer_of(shorter) == answer_of(whole)


def test_no_question_is_answered_without_a_whole_trace_and_without_records() -> None:
    cut = CutTrace(Path("rank0.json"), 0, "its events have no end", 1, 1)
    profile = Profile(replace(run_of(), cut=(cut,)))

    assert {check.status for check in all_checks(profile)} == {"cannot_answer"}


@pytest.mark.parametrize("command", ["operators", "kernels", "tool find_events"])
def test_a_command_on_cut_traces_alone_says_that_they_cannot_be_used(
    command: str, half_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--args", '{"rank": 1}'] if command.startswith("tool") else []
    (trace,) = half_run.glob("rank1*")

    assert main([*command.split(), str(trace), *given]) == ExitCode.INPUT
    assert "is cut" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_no_answer_on_a_damaged_trace_contradicts_the_whole_one(damage: str) -> None:
    found = list(outcomes(next(demo_run().glob("rank0*")), [damage], 8))

    assert len(found) == 7
    assert not [each for each in found if each.contradictions]
    assert {each.kind for each in found} == {"nothing claimed"}
