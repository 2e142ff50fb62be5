"""Which processes of a trace are devices, where neither their categories nor their names are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.kineto_text import JsonEvent, launch, span, write_trace
from tools.judgement.ranking import ranking
from tools.run.events import EventKind
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.views.profile import Profile

ALONE = LoadOptions(workers=1, alone_bytes=1 << 40)
OTHER = 2
STEPS, CALLS, STEP_US = 4, 10, 10_000


def recorded(process: str, category: str, host: str = "python", **more: object) -> list[JsonEvent]:
    """Four steps of 10 ms: the host works for 1 ms of each, the other process for 7 ms."""
    events: list[JsonEvent] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in ((100, host), (OTHER, process))
        if name
    ]
    for step in range(STEPS):
        start = step * STEP_US
        events.append(span(f"ProfilerStep#{step}", start, STEP_US, "user_annotation"))
        for call in range(CALLS):
            at, number = start + call * 1000, step * CALLS + call
            events.append(span("aten::mm", at, 100))
            events.append(launch(at + 20, 10, number))
            event = span("fused_op", at + 150, 700, category, pid=OTHER, tid=1)
            events.append(event | {key: {**value, "correlation": number} for key, value in more.items()})  # type: ignore[dict-item]
    return events


def profile_of(path: Path, events: list[JsonEvent]) -> Profile:
    return Profile(load_run([write_trace(path / "t.json", events)], ALONE))


@pytest.mark.parametrize(
    ("process", "category"),
    [
        *(("MLU 0", "mlu_op"), ("NeuronCore 0", "neuron"), ("GCU 0", "topsOp"), ("MUSA 0", "musa_kernel")),
        *(("DCU card 0", ""), ("Cambricon MLU370", ""), ("TPC Engine", ""), ("python 1234", "privateuse1_kernel")),
        *(("FooChip", "foo_engine"), ("foo", "device"), ("", "gpu_op"), ("python", "npu")),
    ],
)
def test_work_of_a_device_that_is_not_known_is_read_by_its_name_or_its_categories(
    tmp_path: Path, process: str, category: str
) -> None:
    profile = profile_of(tmp_path, recorded(process, category))
    assert profile.run.has_device
    assert profile.breakdown["compute_ns"].tolist() == [7_000_000] * STEPS


def test_events_that_the_calls_of_the_host_lead_to_are_work_of_a_device(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, recorded("foo", "foo_op", args={}))
    assert profile.breakdown["compute_ns"].tolist() == [7_000_000] * STEPS


def test_arrows_from_the_host_lead_to_work_of_a_device(tmp_path: Path) -> None:
    arrows = [
        {"ph": phase, "cat": "link", "name": "link", "id": 1, "pid": pid, "tid": 1, "ts": 30}
        for phase, pid in (("s", 100), ("f", OTHER))
    ]
    profile = profile_of(tmp_path, [*recorded("foo", "foo_op"), *arrows])
    assert profile.breakdown["compute_ns"].tolist() == [7_000_000] * STEPS


def test_a_process_that_may_be_a_device_is_named_and_nothing_is_concluded_without_it(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, recorded("Foo lane", "foo"))
    assert not profile.run.has_device
    assert [(each.name, each.possible) for each in profile.run.ranks[0].devices] == [("Foo lane", True)]
    assert "'Foo lane' may be a device" in profile.run.sources[0].note
    found = ranking(profile)
    (lead,) = found.leads
    assert (found.verdict, found.unexplained, lead.claim.names) == ("inconclusive", (), ("Foo lane",))
    assert "may be a device" in found.why


@pytest.mark.parametrize(
    ("process", "category"),
    [
        *(("DataLoader worker 1", ""), ("MainProcess", "FEE"), ("python 7", "work"), ("cpu", ""), ("train.py", "x")),
        *(("foo", "cpu_kernel"), ("foo", "python_call"), ("GPU counters", "counter"), ("/device:CPU:0", "")),
    ],
)
def test_processes_of_the_host_leave_a_trace_of_the_cpu_as_it_is(tmp_path: Path, process: str, category: str) -> None:
    profile = profile_of(tmp_path, recorded(process, category))
    assert not profile.run.has_device
    assert not profile.run.ranks[0].devices


def test_events_that_nest_as_calls_do_are_no_device(tmp_path: Path) -> None:
    inner = [
        span("inner", step * STEP_US + call * 1000 + 200, 500, "x", pid=OTHER, tid=1)
        for step in range(STEPS)
        for call in range(CALLS)
    ]
    profile = profile_of(tmp_path, [*recorded("foo", "x"), *inner])
    assert not profile.run.ranks[0].devices


def test_calls_of_a_runtime_that_is_not_known_are_calls_of_a_runtime(tmp_path: Path) -> None:
    events = [span("mluLaunch", 0, 5, "mlu_runtime"), span("aten::mm", 0, 9)]
    kinds = load_run([write_trace(tmp_path / "t.json", events)], ALONE).ranks[0].events.frame["kind"]
    assert sorted(kinds) == [EventKind.OPERATOR, EventKind.RUNTIME]
