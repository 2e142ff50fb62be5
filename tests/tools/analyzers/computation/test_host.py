"""Operators that compute on the host: double precision, chains, a rank that is slower than the others."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tests.tools.analyzers.computation_runs import check, saved_us
from tools.metrics.registry import measure
from tools.views.profile import Profile


def host_run(*operators: tuple[str, float, str]) -> Profile:
    """One rank, one step of 10 ms; operators (name, us, type) one after the other."""
    rank = RankBuilder(device=None)
    now_us = 0.0
    for name, us, kind in operators:
        rank.operator(name, now_us, us, dims=[[64, 64], [64, 64]], types=[kind, kind])
        now_us += us + 5
    rank.step(0, 0, 10_000)
    return profile_of(rank)


def test_double_operators_of_every_kind_count_and_halve() -> None:
    profile = host_run(("aten::mm", 2000, "double"), ("aten::tanh", 1000, "double"), ("aten::mm", 3000, "float"))
    finding = check(profile, "computation.fp64").findings[0]
    assert finding.mechanism is None
    assert finding.claim.facts[0].value == pytest.approx(30.0)
    assert saved_us(finding) == pytest.approx(1500)


def test_convolutions_outside_the_tuned_library_are_a_fallback() -> None:
    profile = host_run(("aten::mm", 500, "double"), ("aten::_slow_conv2d_forward", 4000, "double"))
    finding = check(profile, "computation.fp64").findings[0]
    assert finding.mechanism == "fallback_unit"
    assert saved_us(finding) == pytest.approx(250 + 4000 * 0.85)


def test_three_element_wise_operators_in_a_row_are_a_chain() -> None:
    profile = host_run(
        ("aten::mm", 2000, "float"),
        ("aten::mul", 900, "float"),
        ("aten::tanh", 1200, "float"),
        ("aten::empty", 3, "float"),
        ("aten::add", 900, "float"),
        ("aten::mm", 2000, "float"),
    )
    finding = check(profile, "computation.memory_bound").findings[0]
    assert finding.cause == "memory_bound"
    assert finding.claim.facts[0].value == pytest.approx(30.0)
    assert measure(profile, "host_group_count", group="elementwise_runs", rank=0).value == 3


def test_two_element_wise_operators_between_others_are_usual() -> None:
    profile = host_run(("aten::mul", 900, "float"), ("aten::add", 900, "float"), ("aten::mm", 2000, "float"))
    assert check(profile, "computation.memory_bound").status == "clean"


def two_ranks(slower: float, steps_slower: int = 3) -> Profile:
    """Three steps of twenty equal operators; rank 1 takes ``slower`` times as long in some of the steps."""
    ranks = [RankBuilder(number, device=None) for number in range(2)]
    for number, rank in enumerate(ranks):
        for step in range(3):
            us = 100.0 * (slower if number and step < steps_slower else 1.0)
            for place in range(20):
                rank.operator("aten::mm", 10_000 * step + place * 300, us, dims=[[64, 64], [64, 64]])
            rank.step(step, 10_000 * step, 10_000 * (step + 1))
    return profile_of(*ranks)


def test_a_rank_whose_operators_take_longer_in_every_step_is_slow() -> None:
    profile = two_ranks(1.6)
    finding = check(profile, "computation.slow_device").findings[0]
    assert (finding.cause, finding.ranks) == ("slow_device", (1,))
    assert finding.claim.facts[0].value == pytest.approx(60.0)
    assert saved_us(finding) == pytest.approx(3 * 20 * 60.0)


def test_a_rank_that_is_slower_in_one_step_only_is_not_called_slow() -> None:
    assert check(two_ranks(2.5, steps_slower=1), "computation.slow_device").status == "clean"


def test_ranks_a_tenth_apart_are_equal() -> None:
    assert check(two_ranks(1.1), "computation.slow_device").status == "clean"


def test_what_a_loader_computes_in_the_process_is_no_chain_of_the_training() -> None:
    rank = RankBuilder(device=None)
    rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 3000)
    for place in range(4):
        rank.operator("aten::mul", 10 + 700 * place, 650, dims=[[64, 64], [64, 64]], types=["float", "float"])
        rank.operator("aten::mul", 4000 + 700 * place, 650, dims=[[64, 64], [64, 64]], types=["float", "float"])
    rank.step(0, 0, 10_000)
    profile = profile_of(rank)
    assert measure(profile, "host_group_count", group="elementwise_runs", rank=0).value == 4
