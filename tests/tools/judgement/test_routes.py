"""Deep looks are taken where the time is and the run holds what they need, each with its reason."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tests.tools.judgement.test_leads import computing, pausing
from tools.agent_tools.context import RunContext
from tools.agent_tools.registry import tool_of
from tools.judgement import routes as module
from tools.judgement.routes import LOOKS, Route, routes, sentence_of
from tools.views.profile import Profile


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
