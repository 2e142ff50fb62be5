"""Operators that compute on the host: double precision, chains, a rank that is slower than the others."""

from __future__ import annotations

import pytest

from tests.recorded_runs import recorded_profile, records_of, step_rows
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
    assert finding.mechanism == "double_precision"
    assert finding.details == ()  # of convolutions, none of which ran
    assert finding.claim.facts[0].value == pytest.approx(30.0)
    assert saved_us(finding) == pytest.approx(1500)


def test_a_python_number_among_tensors_is_no_double_precision() -> None:
    """PyTorch records it as an operand of type double without dimensions and computes in the tensors' type."""
    rank = RankBuilder(device=None)
    rank.operator("aten::mm", 0, 4000, dims=[[64, 64], [64, 64]], types=["float", "float"])
    rank.operator("aten::to", 4010, 1500, dims=[[], []], types=["double", "Scalar"])
    rank.operator("aten::mul", 5520, 1500, dims=[[64], []], types=["long int", "double"])
    rank.step(0, 0, 10_000)
    profile = profile_of(rank)
    assert check(profile, "computation.fp64").status == "clean"
    assert measure(profile, "host_group_count", group="fp64", rank=0).value == 0


def test_convolutions_outside_the_tuned_library_are_told_apart() -> None:
    profile = host_run(("aten::mm", 500, "double"), ("aten::_slow_conv2d_forward", 4000, "double"))
    finding = check(profile, "computation.fp64").findings[0]
    (detail,) = finding.details
    assert detail.facts[0].value == pytest.approx(100 * 4000 / 10000)
    assert saved_us(finding) == pytest.approx(250 + 4000 * 0.85)


def test_a_chain_of_element_wise_operators_keeps_the_traffic_of_one() -> None:
    profile = host_run(
        ("aten::mm", 2000, "float"),
        ("aten::mul", 900, "float"),
        ("aten::sub", 1200, "float"),
        ("aten::empty", 3, "float"),
        ("aten::add", 900, "float"),
        ("aten::mm", 2000, "float"),
    )
    finding = check(profile, "computation.memory_bound").findings[0]
    assert (finding.cause, finding.mechanism) == ("memory_bound", "elementwise_chain")
    share, fused = finding.claim.facts
    assert share.value == pytest.approx(30.0)
    assert fused.value == pytest.approx(100.0 * 900 / 3000)
    assert saved_us(finding) == pytest.approx(3000 - 900)
    assert measure(profile, "host_group_count", group="elementwise_runs", rank=0).value == 3


def test_fused_arithmetic_stays_and_a_chain_that_reduces_passes_twice() -> None:
    arithmetic = host_run(("aten::mul", 900, "float"), ("aten::tanh", 1200, "float"), ("aten::add", 900, "float"))
    assert measure(arithmetic, "fused_chain_pct", rank=0).value == pytest.approx(100.0 * (1200 + 900) / 3000)
    names = ("mean", "sub", "mul", "mean", "div", "add")  # a normalization written by hand
    reducing = host_run(*((f"aten::{name}", 500, "float") for name in names))
    assert measure(reducing, "elementwise_chain_pct", rank=0).value == pytest.approx(30.0)
    assert measure(reducing, "fused_chain_pct", rank=0).value == pytest.approx(100.0 * 2 * 500 / 3000)


def test_a_chain_of_an_optimizer_keeps_a_third_of_its_traffic() -> None:
    rank = RankBuilder(device=None)
    rank.annotation("Optimizer.step#Adam.step", 0, 9_000)
    for place in range(6):
        rank.operator("aten::mul", 1_000 * place, 900)
    rank.step(0, 0, 10_000)
    assert measure(profile_of(rank), "fused_chain_pct", rank=0).value == pytest.approx(100.0 / 3)


def test_a_call_that_was_held_up_moves_no_more_memory_unless_new_pages_explain_it() -> None:
    def chained(megabytes: float, late_us: float) -> Profile:
        rank, elements = RankBuilder(device=None), round(megabytes * 1e6 / 4)
        for step in range(6):
            for place in range(4):
                us = late_us if (step, place) == (2, 3) else 400.0
                rank.operator("aten::mul", 10_000 * step + 500 * place, us, dims=[[elements]], types=["float"])
            rank.step(step, 10_000 * step, 10_000 * (step + 1))
        return profile_of(rank)

    undelayed = 100.0 * 24 * 400 / 60_000
    assert measure(chained(1.0, 4000.0), "elementwise_chain_pct", rank=0).value == pytest.approx(undelayed)
    paged = 100.0 * (23 * 400 + 4000) / 60_000
    assert measure(chained(16.0, 4000.0), "elementwise_chain_pct", rank=0).value == pytest.approx(paged)


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


def meeting(number: int, late: bool) -> RankBuilder:
    """Three steps of a rank that meets the other one at the end of each; one call takes 4.1 ms longer where late."""
    rank = RankBuilder(number, device=None)
    gloo = rank.host_thread("gloo")
    for step in range(3):
        at = begin = 40_000.0 * step
        for place in range(20):
            us = 1_000.0 + (4_100.0 if late and place == 3 + step else 0.0)
            rank.operator("aten::mm", at, us, dims=[[64, 64], [64, 64]], types=["float", "float"])
            at += us + 1
        sent = rank.annotation("gloo:all_reduce", at, begin + 26_000 - at, track=gloo)
        sizes = {"group_size": 2, "in_elements": 1_024, "out_elements": 1_024}
        rank.detail("collectives", sent, collective="all_reduce", group="0", dtype="Float", **sizes)
        rank.step(step, begin, begin + 26_000)
    return rank


def test_a_rank_that_is_held_up_alone_and_waited_for_has_its_core_taken() -> None:
    (finding,) = check(profile_of(meeting(0, late=False), meeting(1, late=True)), "computation.slow_device").findings
    assert (finding.cause, finding.ranks, finding.steps) == ("cpu_contention", (1,), (0, 1, 2))
    count, share = finding.claim.facts
    assert count.value == pytest.approx(1.0)
    assert share.value == pytest.approx(100.0 * 4.1 / 26.0)
    assert 0.5 < finding.confidence <= 0.7


def test_ranks_that_are_held_up_alike_are_equal() -> None:
    both = profile_of(meeting(0, late=True), meeting(1, late=True))
    assert check(both, "computation.slow_device").status == "clean"


def test_a_rank_that_is_held_up_alone_and_by_its_records_waits_for_no_core_is_slow_itself() -> None:
    records = records_of([step_rows(rank, [26.0] * 60) for rank in range(2)])
    profile = recorded_profile(records, lambda number: meeting(number, late=number == 1))
    assert check(profile, "cpu.contention").status == "clean"
    (finding,) = check(profile, "computation.slow_device").findings
    assert (finding.cause, finding.ranks) == ("slow_device", (1,))
    assert "waits for no core" in finding.against[0].template
