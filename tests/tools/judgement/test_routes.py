"""Deep looks are taken where the time is and the run holds what they need, each with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.synthetic import RankBuilder, profile_of
from tests.tools.agent_tools.questions_run import REDUCE
from tests.tools.judgement.test_leads import computing, pausing
from tests.tools.whatif.planners.test_recorded_gradients import recorded
from tools.agent_tools.context import RunContext
from tools.agent_tools.registry import tool_of
from tools.findings import Finding, Sentence
from tools.judgement import routes as module
from tools.judgement.routes import LOOKS, Route, is_about, routes, sentence_of
from tools.views.profile import Profile
from tools.whatif.planners.recorded_gradients import plan_run


def decided(profile: Profile) -> dict[str, Route]:
    return {each.look: each for each in routes(profile)}


def test_each_look_has_a_decision_and_those_taken_come_first() -> None:
    found = routes(pausing(200.0))
    assert {each.look for each in found} == {look.name for look in LOOKS}
    assert [each.taken for each in found] == sorted((each.taken for each in found), reverse=True)
    assert all(each.reason.facts for each in found)


def test_a_part_without_time_is_not_looked_into() -> None:
    groups = decided(pausing(200.0))["process groups"]
    assert not groups.taken
    assert groups.reason.template.endswith("too little")


@pytest.mark.parametrize("shapes", [True, False])
def test_shapes_are_looked_at_where_they_were_recorded(shapes: bool) -> None:
    found = decided(computing(2_000.0, shapes))["shapes"]
    assert found.taken == shapes
    assert ("record_shapes=True" in found.reason.template) != shapes
    assert found.share_pct == pytest.approx(100.0)


def test_a_rank_with_too_many_events_is_left_to_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 10)
    assert not any(each.taken for each in routes(computing(2_000.0, True)))


def test_a_look_says_what_is_largest_with_a_figure_that_can_be_measured_again() -> None:
    profile = computing(4_000.0, True)
    look = next(each for each in LOOKS if each.name == "shapes")
    rows = tool_of(look.tool).call(RunContext(profile), {**look.arguments, "rank": 0}).rows
    said = sentence_of(profile, look, 0, [row.model_dump() for row in rows])
    assert said is not None
    assert said.names[0].startswith("aten::mm")
    assert said.facts[0].value == pytest.approx(6 * 2.0 + 2 * 4.0)  # ms per step


def test_rows_without_a_recorded_name_say_nothing() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::mm", 0, 100)
    rank.step(0, 0, 200)
    look = next(each for each in LOOKS if each.name == "layers")
    assert sentence_of(profile_of(rank), look, 0, [{"name": "(no module recorded)", "kind": "operator"}]) is None


def exchanging() -> Profile:
    """Two ranks that exchange gradients: 1 ms in each step, 5 ms in step 1, nothing overlapped."""
    ranks = []
    for number in range(2):
        rank = RankBuilder(number)
        for step in range(3):
            at = 10_000.0 * step
            rank.kernel("sgemm", at + 20, 2_000, call_us=at + 10)
            long_us = 5_000 if step == 1 else 1_000
            kernel = rank.kernel(REDUCE, at + 2_100, long_us, call_us=at + 2_050)
            rank.detail("collectives", kernel, collective="allreduce", group="0", group_size=2, ranks="[0, 1]")
            rank.runtime("cudaDeviceSynchronize", at + 2_060, long_us + 45)
            rank.step(step, at, at + 10_000)
        ranks.append(rank)
    return profile_of(*ranks)


def test_the_longest_exposed_collective_is_named_where_the_step_waits_for_communication() -> None:
    profile = exchanging()
    route = decided(profile)["collectives"]
    assert (route.taken, route.rank) == (True, 0)
    look = next(each for each in LOOKS if each.name == "collectives")
    rows = tool_of(look.tool).call(RunContext(profile), {**look.arguments, "rank": 0}).rows
    said = sentence_of(profile, look, 0, [row.model_dump() for row in rows])
    assert said is not None
    assert said.template.startswith("Longest exposed collective of rank 0: {n0} number 1 of step 1")
    assert [fact.value for fact in said.facts] == pytest.approx([5.0, 0.0])
    assert sentence_of(profile, look, 0, [rows[0].model_dump()] * module.MOST_COLLECTIVES) is None


def test_what_a_look_showed_is_about_causes_of_its_family_on_its_ranks() -> None:
    reason = Sentence("", ())
    gaps = Route("gaps", "host", 1, 50.0, True, reason)
    waiting = Finding("slow_data_processing", reason, 0.9, ranks=(1,))
    for_data, in_host = Sentence("", (), ("data",)), Sentence("", (), ("stall",))
    assert is_about(gaps, for_data, waiting)
    assert not is_about(gaps, in_host, waiting)
    assert not is_about(replace(gaps, rank=0), for_data, waiting)
    lines = Route("Python lines", "host", 1, 50.0, True, reason)
    assert not is_about(lines, Sentence("", (), ("train.py(3): step",)), waiting)


def test_gradient_buckets_are_planned_where_the_step_waits_for_their_transfers() -> None:
    profile = recorded()
    route = decided(profile)["gradient buckets"]
    assert route.taken
    look = next(each for each in LOOKS if each.name == "gradient buckets")
    (row,) = tool_of(look.tool).call(RunContext(profile), look.arguments).rows
    said = sentence_of(profile, look, 0, [row.model_dump()])
    assert said is not None
    planned = plan_run(profile)
    assert [fact.value for fact in said.facts] == [planned.before_ms, planned.after_ms]
    assert planned.before_ms is not None
    gain_pct = 100 * (planned.before_ms - planned.after_ms) / planned.before_ms
    assert ("would bring little" in said.template) == (gain_pct < 5.0)
    assert not decided(recorded(buckets=((0, 1, 2, 3),), shapes=False))["gradient buckets"].taken
