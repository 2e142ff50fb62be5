"""The own time of host calls."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.work import by_step, host_calls, most_grown, names_by_time


def profile(rank: RankBuilder) -> Profile:
    """The rank with a kernel in each of its steps, so that the main thread is the one that drives training."""
    rank.kernel("sgemm", 905, 10, call_us=900)
    return profile_of(rank)


def own_us(made: Profile, name: str) -> float:
    table = host_calls(made, 0)
    names = made.rank(0).events.frame["name"].astype(str).to_numpy()[table["row"].to_numpy()]
    return float(table["own_ns"][names == name].sum()) / 1e3


def test_what_runs_inside_a_call_is_not_its_own() -> None:
    rank = RankBuilder(0)
    rank.operator("outer", 10, 300)
    rank.operator("inner", 20, 250)
    rank.runtime("innermost", 30, 100)
    rank.step(0, 0, 1_000)
    made = profile(rank)
    assert [own_us(made, name) for name in ("outer", "inner", "innermost")] == [50, 150, 100]


def test_a_mark_that_outlives_the_frame_which_opened_it_belongs_to_the_frame_around() -> None:
    rank = RankBuilder(0)
    rank.event(EventKind.PYTHON, "forward", 10, 500)
    rank.event(EventKind.PYTHON, "__enter__", 12, 5)
    rank.annotation("Model.forward", 16, 490)
    rank.step(0, 0, 1_000)
    made = profile(rank)
    assert own_us(made, "Model.forward") == 490
    assert own_us(made, "forward") == pytest.approx(500 - 490 - 5)


def test_a_call_that_outlasts_its_step_counts_up_to_the_steps_end() -> None:
    rank = RankBuilder(0)
    rank.operator("stop", 950, 10_000)
    rank.step(0, 0, 1_000)
    assert own_us(profile(rank), "stop") == 50


def test_own_times_of_nested_calls_add_up_to_the_outermost() -> None:
    rank = RankBuilder(0)
    for place in range(40):
        rank.operator(f"op{place}", 10.0 * place, 850 - 20.0 * place)
    rank.step(0, 0, 1_000)
    table = host_calls(profile(rank), 0)
    launch_ns = 2_000
    assert table["own_ns"].sum() == 850_000 + launch_ns


def test_marks_of_whole_steps_are_left_out_and_names_come_by_time() -> None:
    rank = RankBuilder(0)
    rank.operator("short", 10, 20)
    rank.operator("long", 100, 200)
    rank.step(0, 0, 1_000)
    made = profile(rank)
    assert names_by_time(made.rank(0), host_calls(made, 0))[:2] == ["long", "short"]
    assert own_us(made, "ProfilerStep#0") == 0


def test_the_call_that_grew_most_is_found_and_none_where_none_grew() -> None:
    rank = RankBuilder(0)
    for step in range(5):
        start_us = step * 1_000.0
        rank.operator("even", start_us + 10, 300)
        rank.operator("uneven", start_us + 400, 250 if step == 2 else 50)
        rank.kernel("sgemm", start_us + 905, 10, call_us=start_us + 900)
        rank.step(step, start_us, start_us + 1_000)
    made = profile_of(rank)
    table = host_calls(made, 0)
    assert most_grown(made.rank(0), table, 2) == "uneven"
    assert most_grown(made.rank(0), table, 3) == ""
    assert most_grown(made.rank(0), table.iloc[:0], 2) == ""
    assert by_step(made.rank(0), table).shape == (3, 5)
