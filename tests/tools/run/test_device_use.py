"""Traces without device work: of a program on a device, or of one on the CPU next to a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.model.display import NOT_USED
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.kineto_text import JsonEvent, span, write_trace
from tools.judgement.unseen import NO_DEVICE_WORK, device_work_missing
from tools.run.device_use import ran_on_cpu, uses_device
from tools.sources.load import load_run
from tools.views.profile import Profile

DEVICE = {"deviceProperties": [{"id": 0, "name": "Tesla V100-SXM2-16GB"}]}


def allocation(ts: float, device_type: int) -> JsonEvent:
    args = {"Device Type": device_type, "Device Id": -1, "Bytes": 4096, "Total Allocated": 4096, "Total Reserved": 0}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}


def operators() -> list[JsonEvent]:
    return [span(name, 1000 + 500_000 * at, 490_000) for at, name in enumerate(("aten::addmm", "aten::relu") * 3)]


@pytest.mark.parametrize(("device_type", "on_cpu"), [(0, True), (1, False), (None, False)])
def test_a_named_device_was_not_used_where_all_allocations_are_the_hosts(
    tmp_path: Path, device_type: int | None, on_cpu: bool
) -> None:
    """Without recorded allocations nobody knows."""
    memory = [] if device_type is None else [allocation(2000, device_type)]
    profile = Profile(load_run([write_trace(tmp_path / "t.json", [*operators(), *memory], **DEVICE)]))
    (rank,) = profile.run.ranks
    assert ran_on_cpu(rank) == on_cpu
    assert uses_device(rank, None) != on_cpu
    assert device_work_missing(profile) == ("" if on_cpu else NO_DEVICE_WORK)


def test_the_answer_says_that_the_operators_ran_on_the_cpu(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json", [*operators(), allocation(2000, 0)], **DEVICE)
    found = diagnose(Request(paths=(path,), cache_dir=tmp_path / "cache"), lambda _: None)
    assert found.run.devices == [f"Tesla V100-SXM2-16GB {NOT_USED}"]
    assert any("the operators ran on the CPU, for 2940 ms" in each for each in found.answer)
    assert not any("cut" in each for each in found.answer)


def test_spans_of_device_collectives_show_a_device_that_the_trace_does_not_name(tmp_path: Path) -> None:
    events = [span("ProfilerStep#1", 1000, 3_000_000, "user_annotation"), *operators()]
    events.append(span("nccl:all_to_all", 1_200_000, 50, "user_annotation"))
    profile = Profile(load_run([write_trace(tmp_path / "t.json", events)]))
    assert device_work_missing(profile) == NO_DEVICE_WORK
    gloo = [event | {"name": event["name"].replace("nccl", "gloo")} for event in events]
    assert not device_work_missing(Profile(load_run([write_trace(tmp_path / "u.json", gloo)])))
