"""What a check needs is one of a few recordings, and three commands are the most that a reader is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.job_log.logs import megatron
from tools.knowledge.recordings import MOST, record_next, recordings, recordings_for

# What no recording gives: an entry in a table, other machines, other ranks of the job.
NOT_RECORDED = ("devices.yaml", "equal devices", "the same model")


@pytest.mark.parametrize("source", ["demo", "log"])
def test_every_check_that_cannot_answer_needs_a_recording_that_is_known(tmp_path: Path, source: str) -> None:
    log = tmp_path / "job.out"
    log.write_text(megatron(*((step, 900.0 + step % 3) for step in range(1, 21))))
    found = diagnose(Request((demo_run() if source == "demo" else log,)), lambda _: None)
    needs = {check.analyzer: check.needs for check in found.checks if check.status == "cannot_answer"}
    assert needs
    unknown = {name: need for name, need in needs.items() if not recordings_for(need)}
    assert {name: need for name, need in unknown.items() if not any(each in need for each in NOT_RECORDED)} == {}
    assert 1 <= len(found.record_next) <= MOST
    answered = [check for each in found.record_next for check in each.checks]
    assert len(answered) == len(set(answered))
    assert set(answered) <= set(needs)


def test_the_recording_that_answers_most_comes_first_after_that_of_the_verdict() -> None:
    needs = {"a": "the same steps with with_stack=True", "b": "a trace with device activity", "c": "`nvidia-smi dmon`"}
    assert [(each.recording.id, each.checks) for each in record_next(needs)] == [
        ("trace", ("a", "b")),
        ("utilization", ("c",)),
    ]
    found = record_next(needs, first="`py-spy dump --pid PID` on these ranks while they hang")
    assert [each.recording.id for each in found] == ["stacks", "trace", "utilization"]


def test_of_two_that_answer_alike_the_cheaper_one_is_taken() -> None:
    (found,) = record_next({"a": "a trace with with_stack=True, or the log of TORCH_LOGS=recompiles"})
    assert found.recording.id == "output"


def test_every_recording_has_a_command() -> None:
    assert [each.id for each in recordings().values() if "`" not in each.do] == ["whole_files"]


def test_on_ascend_its_own_profiler_is_wanted_and_nothing_that_is_there() -> None:
    needs = {
        "a": "a trace with device activity",
        "b": "kernel_details.csv",
        "c": "`nvidia-smi dmon`",
        "d": "NCCL_DEBUG",
    }
    found = record_next(needs, here=frozenset({"output"}), ascend=True)
    assert [(each.recording.id, each.checks) for each in found] == [("level1", ("a", "b"))]
    assert "torch_npu.profiler.profile(" in found[0].recording.do
