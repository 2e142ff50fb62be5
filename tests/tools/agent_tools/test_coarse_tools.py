"""The tools with coarse figures, called as an outside program calls them."""

from __future__ import annotations

import json

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.agent_tools.context import RunContext
from tools.agent_tools.registry import BY_NAME, TOOLS
from tools.agent_tools.result import Result
from tools.errors import UsageError


def two_ranks() -> RunContext:
    """Rank 1 computes for 300 us of its step, rank 0 for 100 us."""
    ranks = []
    for number, duration_us in ((0, 100), (1, 300)):
        rank = RankBuilder(rank=number)
        for step in range(3):
            begin = step * 1000
            rank.operator("aten::mm", begin + 1, 20)
            rank.kernel("gemm<float, 4>", begin + 50, duration_us, call_us=begin + 5)
            rank.kernel("add", begin + 500, 10, call_us=begin + 480)
            rank.step(step, begin, begin + 900 + (50 if step == 2 else 0))
        ranks.append(rank)
    return RunContext(profile_of(*ranks))


def call(name: str, context: RunContext | None = None, **arguments: object) -> Result:
    return BY_NAME[name].call(context or two_ranks(), arguments)


def values(result: Result) -> dict[str, float]:
    return {fact.label: fact.value for fact in result.facts}


def test_every_tool_has_a_description_and_refuses_arguments_it_does_not_know() -> None:
    for tool in TOOLS:
        assert len(tool.description) > 20
        assert tool.schema["additionalProperties"] is False
        json.dumps(tool.schema)
        with pytest.raises(UsageError, match="surprise is unknown"):
            tool.check({"surprise": 1})


def test_steps_are_listed_the_longest_first_and_page_by_page() -> None:
    first = call("series", limit=1)
    assert values(first)["mean step time"] == pytest.approx(0.916667, abs=1e-6)
    assert values(first)["step 2 over the median step"] == pytest.approx(0.05)
    assert [row.id for row in first.rows] == ["s0.2"]
    rest = call("series", limit=5, cursor=first.cursor)
    assert ([row.id for row in rest.rows], rest.cursor) == (["s0.0", "s0.1"], None)


def test_the_parts_of_the_breakdown_add_up_to_the_step() -> None:
    facts = call("breakdown", rank=1, step=0).facts
    parts = {str(fact.arguments["part"]): fact.value for fact in facts if fact.metric == "part_ms"}
    assert parts.pop("wall") == pytest.approx(0.9)
    parts.pop("overlapped_communication")
    assert parts["compute"] == pytest.approx(0.31)
    assert sum(parts.values()) == pytest.approx(0.9)


def test_ranks_are_compared_the_slowest_first() -> None:
    result = call("rank_comparison", limit=1)
    assert ([row.id for row in result.rows], result.total) == (["r0"], 2)
    assert result.cursor is not None
    assert "spread of the ranks' own time" in values(result)


def test_a_rank_without_a_device_says_so() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::mm", 1, 20)
    rank.step(0, 0, 100)
    context = RunContext(profile_of(rank))
    assert "no device" in call("gaps", context, rank=0).notes[0]
    assert "ran nothing on a device" in call("find_events", context, rank=0, kind="kernel").notes[0]
    assert "has no device" in call("mfu", context).notes[0]
    assert sum("cannot be measured" in note for note in call("launch_queue", context, rank=0).notes) == 6


def test_the_launch_queue_gives_its_figures() -> None:
    assert values(call("launch_queue", rank=0))["launches per step"] == 2


def test_no_collective_is_no_healthy_communication() -> None:
    result = call("collective_instances")
    assert result.rows == ()
    assert "not assessable from it" in result.notes[0]
    assert [(fact.metric, fact.value) for fact in result.facts] == [("collective_count", 0.0)]


def test_metrics_are_listed_and_measured_by_name() -> None:
    (row,) = call("list_metrics", contains="rank_spread").rows
    assert row.model_dump()["arguments"] == "of: str = 'own'"
    (fact,) = call("measure", metric="rank_kernel_ms", arguments={"rank": "1", "name": "add"}).facts
    assert fact.value == pytest.approx(0.01)
    assert (fact.unit, fact.id) == ("ms", "")


def test_a_setting_that_was_not_recorded_is_not_called_absent() -> None:
    assert "were recorded, so their values are not known" in call("environment", contains="NCCL").notes[0]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("measure", {"metric": "nope"}, "there is no metric 'nope'; the nearest are"),
        ("measure", {"metric": "step_excess_ms"}, "step is missing"),
        ("measure", {"metric": "step_excess_ms", "arguments": {"step": "x"}}, "step: should be a valid integer"),
        (
            "measure",
            {"metric": "step_excess_ms", "arguments": {"profile": 1, "step": 1}},
            "profile is unknown (known: step",
        ),
        ("measure", {"metric": "part_ms", "arguments": {"part": ["host"]}}, "do not fit: arguments.part"),
        ("find_events", {}, "find_events do not fit: rank is missing"),
        ("find_events", {"rank": 5}, "the run has no rank 5"),
        ("find_events", {"rank": 0, "kind": "gpu"}, "kind: should be 'kernel', 'memcpy'"),
        ("find_events", {"rank": 0, "step": 9}, "rank 0 has no step 9; its steps are 0 to 2"),
        ("find_events", {"rank": 0, "limit": 0}, "limit: should be greater than or equal to 1"),
        ("find_events", {"rank": 0, "cursor": "5-00000000"}, "the cursor belongs to another call"),
        ("find_events", {"rank": 0, "sort": "count"}, "sort by count needs group_by"),
        (
            "find_events",
            {"rank": 0, "kind": "kernel", "group_by": "group"},
            "only collectives belong to a process group",
        ),
        (
            "compare",
            {"between": "ranks", "a": 0, "b": 1, "by": "group", "kind": "kernel"},
            "only collectives belong to",
        ),
        ("breakdown", {"step": 99}, "rank 0 has no step 99; its steps are 0 to 2"),
        ("compare", {"between": "steps", "a": 1}, "name both steps: a and b"),
        ("compare", {"between": "runs"}, "there is no second run; name it with --baseline"),
        ("what_if", {"changes": [{"cause": "slow_dat_processing"}]}, "the nearest are slow_data_processing"),
        ("what_if", {"changes": []}, "changes"),
        ("plan", {"planner": "layout"}, "layout cannot take its input from a run"),
        ("checks", {}, "the run was not diagnosed"),
    ],
)
def test_a_wrong_question_is_answered_with_what_is_wrong(name: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as error:
        BY_NAME[name].call(two_ranks(), arguments)
    assert message in str(error.value)


@pytest.mark.parametrize("what", ["batch_size", "tensor_parallel"])
def test_a_change_of_the_workload_is_refused_with_the_reason(what: str) -> None:
    result = call("what_if", changes=[{"what": what, "value": 2}])
    assert result.facts == ()
    assert f"A change of {what} is not predicted" in result.notes[0]
    assert "Record a few steps with the new setting" in result.notes[0]
