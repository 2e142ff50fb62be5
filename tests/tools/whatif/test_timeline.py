"""Bars of Gantt pictures: what is left out, and that they agree with what the planners and replays answer."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from hermes_agent.demo.data import demo_run
from tools.judgement.what_if import what_if
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.asked_changes import asked_changes
from tools.whatif.graph_json import GraphInput
from tools.whatif.graph_replay import replay_graph
from tools.whatif.planners.registry import planner
from tools.whatif.predict import replay_bars, unchanged
from tools.whatif.timeline import Bar, Timeline, bounded, one_after_another

LAYERS = [
    {"forward_ms": ms, "backward_ms": 2 * ms, "activation_bytes": 20 * ms, "weight_bytes": 10, "optimizer_bytes": 20}
    for ms in (2, 3, 1)
]
LINE = {"alpha_ms": 0.5, "beta_ms_per_byte": 3e-7, "bytes": 16000000}
EXPERTS = {"alpha_ms": 0.2, "beta_ms_per_operation": 4e-11, "operations": 2e11}
TASKS = dict.fromkeys(("compress_1", "decompress_1", "compress_2", "decompress_2"), 1) | {
    **{"all_to_all_1": 4, "experts": 3, "all_to_all_2": 4},
}
INPUTS: dict[str, dict[str, Any]] = {
    "gradient-buckets": {
        "gradients": [{"ready_ms": at, "bytes": 2e6} for at in (4, 9, 9.5)],
        "link": {"alpha_ms": 1, "beta_ms_per_byte": 1e-6},
        "update_ms": 2,
    },
    "pipeline-memory": {
        **{"layers": LAYERS, "stages": 2, "device_memory_bytes": 125, "host_link_bytes_per_ms": 10},
    },
    "supernet": {"stages": 3, "layers": 6, "choices": 2, "subnets": 5, "seed": 1},
    "expert-degree": {"all_to_all": LINE, "experts": EXPERTS, "max_degree": 8},
    "expert-schedule": {"chunks": 2, "tasks_ms": TASKS},
}


def test_the_longest_bars_and_the_busiest_lanes_are_kept() -> None:
    bars = [Bar(f"lane {lane}", "", "work", 0.0, float(lane + 1)) for lane in range(5)]
    few = bounded(Timeline("", tuple(bars)), most_bars=2, most_lanes=3)
    assert [each.lane for each in few.bars] == ["lane 3", "lane 4"]
    assert few.left_out == 3
    assert bounded(few, most_bars=2, most_lanes=3) == few


def test_a_lane_stands_next_to_itself_in_the_other_group() -> None:
    bars = [Bar(lane, "", "", 0.0, 1.0, group) for group in ("now", "then") for lane in ("a", "b")]
    assert Timeline("", tuple(bars)).lanes == (("a", "now"), ("a", "then"), ("b", "now"), ("b", "then"))


def test_parts_one_after_another_leave_no_gap() -> None:
    bars = one_after_another("lane", [("x", "k", 2.0), ("y", "k", 3.0)], start_ms=1.0)
    assert [(each.start_ms, each.end_ms) for each in bars] == [(1.0, 3.0), (3.0, 6.0)]


@pytest.mark.parametrize("name", INPUTS)
def test_the_last_bar_of_a_plan_ends_when_the_plan_does(name: str) -> None:
    made = planner(name).plan(json.dumps(INPUTS[name]).encode())
    assert made.bars is not None
    bars = made.bars()
    planned = [each for each in bars if each.group in ("", "planned")]
    assert max(each.end_ms for each in planned) == pytest.approx(made.after_ms, rel=1e-12)
    if present := [each for each in bars if each.group == "present"]:
        assert max(each.end_ms for each in present) == pytest.approx(made.before_ms, rel=1e-12)
    for lane in {(each.lane, each.group) for each in bars}:
        mine = sorted((each.start_ms, each.end_ms) for each in bars if (each.lane, each.group) == lane)
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(mine))


def test_a_plan_of_sums_has_no_bars() -> None:
    given = INPUTS["expert-degree"] | {"gradient_all_reduce_ms": 1}
    assert planner("expert-degree").plan(json.dumps(given).encode()).bars is None


def test_bars_of_a_replay_are_its_operators() -> None:
    nodes = [
        {"id": "a", "name": "forward", "resource": "gpu", "duration_ms": 2},
        {"id": "b", "duration_ms": 6, "kind": "communication"},
        {"id": "c", "duration_ms": 0},
    ]
    edges = [{"source": "a", "target": "b"}, {"source": "b", "target": "c"}]
    given = GraphInput.model_validate({"schema": "hermes-dx/graph/1", "nodes": nodes, "edges": edges})
    assert replay_graph(given).bars(given) == [
        Bar("gpu", "forward", "computation", 0.0, 2.0),
        Bar("communication", "b", "communication", 2.0, 8.0),
    ]


def test_bars_of_a_what_if_end_with_both_replays() -> None:
    profile = Profile(load_run([demo_run()]))
    found = what_if(profile, asked_changes(["no waits for data"]))
    bars = replay_bars(profile, found.change)
    now = max(each.end_ms for each in bars if each.group == "now")
    predicted = max(each.end_ms for each in bars if each.group == "predicted")
    base = unchanged(profile)
    assert now == pytest.approx((base.unrecorded.finish_ns - base.graph.window.origin_ns) / 1e6, rel=1e-3)
    assert found.prediction is not None
    steps = len(base.graph.window.steps)
    assert now - predicted == pytest.approx(steps * found.prediction.saving_ms, rel=0.05)
