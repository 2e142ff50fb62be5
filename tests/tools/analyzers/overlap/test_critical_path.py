"""What the critical path's check says."""

from __future__ import annotations

import pytest

from tests.asked import asking
from tests.synthetic import RankBuilder, profile_of
from tests.synthetic_runs import taking_turns
from tools.errors import UsageError
from tools.metrics.registry import measure, measurement

analyze = asking("parallel.critical_path")


def half_and_half() -> RankBuilder:
    """Steps of 500 us of host work, then 500 us of kernel that the host waits for."""
    rank = RankBuilder()
    for step in range(3):
        at = step * 1010.0
        rank.operator("work", at, 500)
        rank.kernel("gemm", start_us=at + 505, duration_us=500, call_us=at + 500)
        rank.runtime("cudaDeviceSynchronize", at + 503, 504)
        rank.step(step, at, at + 1010)
    return rank


def test_it_names_each_familys_time_on_the_path_and_what_it_would_give_back() -> None:
    (check,) = analyze(profile_of(half_and_half()))
    assert (check.name, check.status) == ("parallel.critical_path", "clean")
    made_of, saving, idle = check.support
    assert made_of.template == (
        "The critical path of a step of {0} consists of {1} of the host program and {2} of computation."
    )
    assert [fact.value for fact in made_of.facts] == pytest.approx([1.01, 0.507, 0.5], abs=0.002)
    assert saving.template == (
        "The step would be shorter by {0} without the host program and {1} without computation, each removed alone."
    )
    assert [fact.value for fact in saving.facts] == pytest.approx([0.507, 0.5], abs=0.002)
    assert idle.facts[0].value == pytest.approx(0.003, abs=0.001)


def test_the_families_add_up_to_the_path_of_the_rank_where_it_ends() -> None:
    """Ranks that take turns in being slow: the slowest rank of each step takes longer than any rank on average."""
    profile = profile_of(*taking_turns())
    whole = measure(profile, "critical_path_step_ms").value
    families = ("io", "cpu", "computation", "communication", "memory", "idle")
    assert sum(measure(profile, "critical_path_ms", family=each).value for each in families) == pytest.approx(whole)
    assert whole == pytest.approx(0.6)


def test_its_facts_can_be_measured_again() -> None:
    profile = profile_of(half_and_half())
    (check,) = analyze(profile)
    again = profile_of(half_and_half())
    for sentence in check.support:
        for fact in sentence.facts:
            assert measure(again, fact.metric, **dict(fact.arguments)) == fact


def test_the_rows_behind_a_figure_are_its_stretches_longest_first() -> None:
    rows = measurement(profile_of(half_and_half()), "critical_path_ms", family="computation").rows()
    assert rows["name"].tolist() == ["gemm"] * 3
    assert (rows["end_ns"] - rows["start_ns"]).tolist() == [500_000] * 3


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="choose one of io, cpu"):
        measure(profile_of(half_and_half()), "critical_path_ms", family="disk")
    with pytest.raises(UsageError, match="no family 'idle'"):
        measure(profile_of(half_and_half()), "family_saving_ms", family="idle")


def test_without_launching_calls_it_cannot_answer() -> None:
    rank = RankBuilder()
    rank.kernel("gemm", start_us=10, duration_us=500)
    rank.step(0, 0, 600)
    (check,) = analyze(profile_of(rank))
    assert check.status == "cannot_answer"
    assert "correlation" in check.needs


def test_a_path_that_is_mostly_unexplained_idleness_cannot_answer() -> None:
    rank = RankBuilder()
    for number in range(6):
        rank.kernel("kernel", start_us=number * 20 + 8, duration_us=5, call_us=number * 20)
    rank.kernel("held", start_us=900, duration_us=10, call_us=130)
    rank.runtime("cudaDeviceSynchronize", 140, 772)
    rank.step(0, 0, 1000)
    (check,) = analyze(profile_of(rank))
    assert check.status == "cannot_answer"
    assert "idle" in check.reason
