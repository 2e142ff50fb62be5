"""The tools that read a run, called as an outside program calls them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.agent_tools.run_tools import RUN_TOOLS
from tools.errors import UsageError
from tools.findings import Argument, Fact
from tools.judgement.catalog import measure
from tools.views.profile import Profile

TOOLS = {tool.name: tool for tool in RUN_TOOLS}


@dataclass
class FakeContext:
    """A context that writes facts as ``value unit <number>`` and keeps them."""

    run: Profile
    facts: list[Fact] = field(default_factory=list)

    def profile(self) -> Profile:
        return self.run

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        return measure(self.run, metric, **arguments)

    def say(self, template: str, *facts: Fact, names: tuple[str, ...] = ()) -> str:
        self.facts += facts
        places = {str(number): f"{fact.value:g} {fact.unit} <{fact.metric}>" for number, fact in enumerate(facts)}
        places |= {f"n{number}": name for number, name in enumerate(names)}
        for place, text in places.items():
            template = template.replace(f"{{{place}}}", text)
        return template


def two_ranks() -> FakeContext:
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
    return FakeContext(profile_of(*ranks))


def call(name: str, context: FakeContext, arguments: Mapping[str, object] | None = None) -> list[str]:
    return TOOLS[name].bind(context).call(arguments or {}).splitlines()


def test_every_tool_has_a_description_and_refuses_arguments_it_does_not_know() -> None:
    assert len(TOOLS) == len(RUN_TOOLS) == 11
    for unbound in RUN_TOOLS:
        tool = unbound.bind(two_ranks())
        assert len(tool.description) > 20
        assert tool.schema["additionalProperties"] is False
        json.dumps(tool.schema)
        with pytest.raises(UsageError, match="surprise is unknown"):
            tool.check({"surprise": 1})


def test_step_times_list_the_longest_step_first() -> None:
    lines = call("step_times", two_ranks(), {"limit": 1})
    assert lines[0].endswith("0.916667 ms <step_time_ms>")
    assert lines[-2:] == ["- step 2 over the median step: 0.05 ms <step_excess_ms>", lines[-1]]
    assert lines[-1].startswith("Shown are `1 of 3` steps")


def test_the_parts_of_the_breakdown_add_up_to_the_step() -> None:
    context = two_ranks()
    call("breakdown", context, {"rank": 1, "step": 0})
    parts = {str(dict(fact.arguments)["part"]): fact.value for fact in context.facts if fact.metric == "part_ms"}
    assert parts.pop("wall") == pytest.approx(0.9)
    parts.pop("overlapped_communication")
    assert parts["compute"] == pytest.approx(0.31)
    assert sum(parts.values()) == pytest.approx(0.9)


def test_ranks_are_compared_and_cut_to_the_limit() -> None:
    lines = call("rank_comparison", two_ranks(), {"limit": 1})
    assert lines[-1] == "Shown are `1 of 2` ranks."
    assert sum("own time per step" in line for line in lines) == 1


def test_kernels_are_listed_by_their_time_on_that_rank() -> None:
    lines = call("slowest_kernels", two_ranks(), {"rank": 1})
    assert lines == [
        "- gemm<float, 4>: 0.3 ms <rank_kernel_ms> in 1 calls <rank_kernel_count> per step",
        "- add: 0.01 ms <rank_kernel_ms> in 1 calls <rank_kernel_count> per step",
    ]
    assert len(call("slowest_kernels", two_ranks(), {"rank": 1, "contains": "GEMM"})) == 1


def test_a_pattern_is_plain_text_and_never_an_expression() -> None:
    assert call("slowest_kernels", two_ranks(), {"rank": 1, "contains": ".*"}) == ["There are no kernel names."]
    assert len(call("slowest_kernels", two_ranks(), {"rank": 1, "contains": "<float, 4>"})) == 1
    assert call("host_calls", two_ranks(), {"rank": 0, "contains": "((((("}) == ["There are no names of host calls."]


def test_host_calls_are_found_by_a_part_of_their_name() -> None:
    (line,) = call("host_calls", two_ranks(), {"rank": 0, "contains": "aten"})
    assert line == "- aten::mm: 0.02 ms <host_name_ms> in 1 calls <host_name_count> per step"


def test_a_rank_without_a_device_says_so() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::mm", 1, 20)
    rank.step(0, 0, 100)
    context = FakeContext(profile_of(rank))
    assert "has no device" in call("slowest_kernels", context, {"rank": 0})[0]
    assert all("cannot be measured" in line for line in call("launch_queue", context, {"rank": 0})[:6])
    assert all("cannot be measured" in line for line in call("device_idle", context, {"rank": 0}))


def test_the_launch_queue_tells_its_figures() -> None:
    lines = call("launch_queue", two_ranks(), {"rank": 0})
    assert lines[0] == "- launches per step: 2 launches <launches_per_step>"


def test_no_collective_is_no_healthy_communication() -> None:
    (line,) = call("collectives", two_ranks())
    assert "not assessable from this data" in line
    assert "0 count <collective_count>" in line


def test_metrics_are_listed_and_measured_by_name() -> None:
    (line,) = call("list_metrics", two_ranks(), {"contains": "rank_spread"})
    assert line.startswith("- rank_spread_pct(of: str = 'own'), %: ")
    arguments = {"metric": "rank_kernel_ms", "arguments": {"rank": "1", "name": "add"}}
    assert "0.01 ms <rank_kernel_ms>" in call("measure", two_ranks(), arguments)[0]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("measure", {"metric": "nope"}, "list_metrics gives those there are"),
        ("measure", {"metric": "step_excess_ms"}, "step is missing"),
        (
            "measure",
            {"metric": "step_excess_ms", "arguments": {"step": "x"}},
            "step: should be a valid integer",
        ),
        (
            "measure",
            {"metric": "step_excess_ms", "arguments": {"profile": 1, "step": 1}},
            "profile is unknown (known: step",
        ),
        ("measure", {"metric": "part_ms", "arguments": {"part": ["host"]}}, "do not fit: arguments.part"),
        ("slowest_kernels", {}, "slowest_kernels do not fit: rank is missing"),
        ("slowest_kernels", {"rank": 5}, "the run has no rank 5"),
        ("step_times", {"limit": 0}, "limit: should be greater than or equal to 1"),
        ("breakdown", {"step": 99}, "there is no step 99"),
    ],
)
def test_a_wrong_question_is_answered_with_what_is_wrong(name: str, arguments: dict[str, object], message: str) -> None:
    try:
        text = "\n".join(call(name, two_ranks(), arguments))
    except UsageError as error:
        text = str(error)
    assert message in text
