"""Groups of steps are reported with what differs between them; a rank late in every other step is a straggler."""

from __future__ import annotations

import pytest

from tests.asked import ask
from tests.collective_runs import late_run
from tests.synthetic import RankBuilder, profile_of
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.metrics.step_modes import Difference, difference
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.steps.modes import step_modes


def alternating(long_ms: float, how: str, steps: int = 6) -> Profile:
    """Steps of 40 ms of operators; every other one has a pause, or a longer operator, of ``long_ms``."""
    rank, at = RankBuilder(device=None), 0.0
    for step in range(steps):
        begun, extra_us = at, 1e3 * long_ms * (step % 2)
        rank.operator("aten::mm", at, 20_000)
        at += 20_000
        rank.operator("aten::sort", at, 20_000 + extra_us * (how == "operator"))
        at += 20_000 + extra_us
        if how == "frame" and extra_us:
            rank.event(EventKind.PYTHON, "train.py(9): log_scores", at - extra_us, extra_us)
        rank.operator("aten::detach", at, 1_000)
        at += 1_000
        rank.step(step, begun, at)
    return profile_of(rank)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("pause", Difference(0, "host", pause=1)),
        ("frame", Difference(0, "host", "train.py(9): log_scores")),
        ("operator", Difference(0, "compute", "aten::sort")),
    ],
)
def test_what_differs_between_the_groups_is_located(how: str, expected: Difference) -> None:
    profile = alternating(300.0, how)
    assert difference(profile, 2) == expected
    assert measure(profile, "step_mode_part_ms", mode=2, part=expected.part, rank=0).value == pytest.approx(300.0)


def test_what_long_steps_cost_is_their_excess_times_their_frequency() -> None:
    profile = alternating(300.0, "pause")
    assert measure(profile, "step_mode_ms", mode=2).value == pytest.approx(341.0)
    assert measure(profile, "step_mode_cost_ms", mode=2).value == pytest.approx(150.0)
    answer = ask(profile, "step_time.fluctuation")
    assert answer.status == "found"
    said = [sentence.template for sentence in answer.support]
    assert "{0} (every 2nd step) take {1}, which adds {2} to the mean step." in said
    assert answer.support[-1].names == ("aten::sort", "aten::detach")


def test_the_long_steps_of_one_rank_are_found_on_it_and_not_where_others_wait() -> None:
    profile = late_run(lambda rank, step: 20_000.0 * (rank == 2 and step % 2), steps=6, how="host")
    assert difference(profile, 2).rank == 2
    assert difference(profile, 2).part == "host"


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_is_late_in_every_other_step_causes_all_waiting(ranks: int) -> None:
    profile = late_run(lambda rank, step: 20_000.0 * (rank == 1 and step % 2), ranks, steps=6, how="host")
    (finding,) = ask(profile, "communication.arrival_skew").findings
    assert (finding.cause, finding.ranks) == ("straggler", (1,))
    assert finding.confidence > 0.8
    assert finding.hints["part"] == "host"


def test_ranks_that_are_late_in_turn_are_no_straggler() -> None:
    profile = late_run(lambda rank, step: 20_000.0 * (rank == step % 4), steps=8, how="host")
    (finding,) = ask(profile, "communication.arrival_skew").findings
    assert finding.cause == "data_skew"


def test_long_steps_that_nothing_explains_are_a_lead_with_their_rhythm() -> None:
    leads = ranking(alternating(60.0, "operator", steps=8)).leads
    (lead,) = [each for each in leads if each.place.steps == "every 2nd step"]
    assert (lead.place.part, lead.place.ranks) == ("compute", (0,))
    assert lead.impact_ms == pytest.approx(30.0)
    assert lead.claim.names == ("aten::sort",)
    assert lead.candidates[0].cause == "data_skew"


@pytest.mark.parametrize("traced", [(0,), (0, 2, 4, 6, 8), tuple(range(8))])
def test_a_rank_that_lacks_steps_of_a_group_leaves_no_gap_in_the_answer(traced: tuple[int, ...]) -> None:
    ranks = []
    for number, steps in enumerate((tuple(range(10)), traced)):
        rank = RankBuilder(rank=number, device=None)
        for step in steps:
            rank.operator("aten::mm", 100_000 * step, 40_000 if step % 2 == 0 else 80_000)
            rank.step(step, 100_000 * step, 100_000 * step + (41_000 if step % 2 == 0 else 81_000))
        ranks.append(rank)
    profile = profile_of(*ranks)
    found = step_modes(profile)
    assert len(found) == (2 if len(traced) == 8 else 0)
    assert all(difference(profile, mode).part == "compute" for mode in range(2, len(found) + 1))
