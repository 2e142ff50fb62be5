"""Ranks with unequal work, by the shapes of their operators."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermes_agent.questions.intents import reply
from tests.asked import ask, asking
from tests.hermes_agent.questions.discussed import discuss
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.whatif.predict import predict

SKEW, EXPERTS = "communication.data_skew", "communication.expert_load"
analyze = asking("communication.data_skew", "communication.expert_load")

US_PER_ROW = 1.0
DENSE_ROWS = 200


def run(
    rows: Callable[[int, int], int],
    collective: str = "all_reduce",
    shapes: bool = True,
    dense: int = 0,
    slower: float = 1.0,
) -> Profile:
    """Two ranks, four steps; each multiplies ``rows(rank, step)`` rows, then both meet in a collective.

    ``slower``: how much longer rank 1 takes for each row.
    """
    ranks = [RankBuilder(0, device=None), RankBuilder(1, device=None)]
    tracks = [rank.host_thread("worker") for rank in ranks]
    now_us = 0.0
    for step in range(4):
        longest = max(rows(0, step), rows(1, step) * slower) * US_PER_ROW + dense
        for number, rank in enumerate(ranks):
            mine = rows(number, step)
            taken = mine * US_PER_ROW * (slower if number else 1.0)
            if dense:
                rank.operator("aten::mm", now_us, dense, dims=[[dense, 64], [64, 64]], types=["float", "float"])
            dims = [[mine, 64], [64, 128]] if shapes else None
            rank.operator("aten::mm", now_us + dense, taken, dims=dims, types=["float", "float"])
            arrives = now_us + dense + taken
            until = now_us + longest + 20
            rank.operator(f"c10d::{collective}_", arrives, 1.0)
            rank.event(EventKind.ANNOTATION, f"gloo:{collective}", arrives + 1, until - arrives - 1, tracks[number])
            rank.step(step, now_us, until + 5)
        now_us += longest + 25
    return profile_of(*ranks)


def alternating(rank: int, step: int) -> int:
    return 600 if (rank + step) % 2 else 1000


def named(profile: Profile, name: str) -> Check:
    return ask(profile, name)


def test_batches_that_differ_in_size_are_data_skew_in_four_steps_already() -> None:
    profile = run(alternating)
    check = named(profile, SKEW)
    assert check.status == "found"
    finding = check.findings[0]
    assert (finding.cause, finding.ranks) == ("data_skew", (0, 1))
    assert measure(profile, "work_uneven_pct").value == pytest.approx(25.0)
    assert measure(profile, "work_follows_pct").value == pytest.approx(100.0)
    assert named(profile, EXPERTS).status == "clean"


def test_the_rank_with_most_work_is_named_where_it_is_always_the_same() -> None:
    always = run(lambda rank, _: 1000 if rank else 600)
    assert "rank 1 has {0} more work" in named(always, SKEW).findings[0].claim.template
    assert "one rank, not always the same, has {0}" in named(run(alternating), SKEW).findings[0].claim.template


def test_balanced_batches_would_save_what_the_busiest_rank_computes_beyond_the_mean() -> None:
    profile = run(alternating)
    prediction = predict(profile, named(profile, SKEW).findings[0].change)
    assert prediction.saving_ms == pytest.approx(0.2, rel=0.1)
    assert prediction.low_ms < prediction.step_ms_after < prediction.high_ms


def test_unequal_work_between_ranks_that_exchange_tokens_is_expert_load() -> None:
    profile = run(lambda rank, step: 1000 if rank else 600, collective="alltoall_base", dense=DENSE_ROWS)
    check = named(profile, EXPERTS)
    assert check.status == "found"
    assert (check.findings[0].cause, check.findings[0].ranks) == ("moe_imbalance", (1,))
    assert measure(profile, "rank_work_pct", rank=1).value > 110.0
    assert measure(profile, "work_own_share_pct").value < 95.0


def test_the_rank_with_the_hot_expert_is_one_cause_and_its_lateness_a_symptom() -> None:
    profile = run(lambda rank, _: 1000 if rank else 400, collective="alltoall_base", dense=DENSE_ROWS)
    (cause,) = ranking(profile).causes
    assert (cause.finding.cause, cause.finding.ranks) == ("moe_imbalance", (1,))
    assert [each.cause for each in cause.symptoms] == ["straggler"]
    step_ms, mean_ms = 1.225, (1.2 + 0.6) / 2  # both ranks can at best compute as long as their mean
    assert cause.impact_ms == pytest.approx(1.2 - mean_ms, rel=0.1)
    assert cause.then_ms < step_ms


def test_questions_on_the_hot_expert_name_it_and_not_the_library_of_collectives() -> None:
    discussion = discuss(run(lambda rank, _: 1000 if rank else 400, collective="alltoall_base", dense=DENSE_ROWS))
    balanced = reply(discussion, "How much would I save if the router were balanced?").text
    assert balanced.startswith("Fixing unbalanced experts on rank 1 would cut the step to")
    blamed = reply(discussion, "is gloo the problem?").text
    assert blamed.startswith("No. Mostly not communication")
    assert "is for rank 1" in blamed
    assert "The first cause found is unbalanced experts" in blamed
    assert "\n" not in blamed


def test_a_rank_that_takes_longer_than_its_work_is_a_straggler_as_well() -> None:
    profile = run(lambda rank, _: 1000 if rank else 800, collective="alltoall_base", dense=DENSE_ROWS, slower=2.0)
    assert "straggler" in [each.finding.cause for each in ranking(profile).causes]


def test_equal_work_is_clean() -> None:
    assert {check.status for check in analyze(run(lambda rank, step: 800))} == {"clean"}


def test_a_slow_rank_with_equal_shapes_is_not_uneven_work() -> None:
    profile = run(lambda rank, step: 800)
    assert measure(profile, "work_uneven_pct").value == 0.0


def test_without_shapes_the_question_cannot_be_answered() -> None:
    checks = analyze(run(alternating, shapes=False))
    assert {check.status for check in checks} == {"cannot_answer"}
    assert "record_shapes" in checks[0].needs


def test_one_rank_of_several_cannot_be_judged() -> None:
    alone = run(alternating)
    profile = Profile(alone.run.select(ranks=[0]))
    assert named(profile, SKEW).status == "cannot_answer"
