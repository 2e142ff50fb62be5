"""Arrival at collectives: who comes last, how long the others wait."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collective_runs import TRANSFER_US, late_run
from tools.metrics.registry import measure
from tools.views.communication.arrivals import DIXON_Q95, arrivals, blame, exposed_wait_ns, steadiness, waits


def test_the_wait_of_each_rank_is_its_lead_over_the_last_one() -> None:
    late = [0.0, 100.0, 300.0, 50.0]
    profile = late_run(lambda rank, step: late[rank], steps=2)
    first = waits(profile)[lambda table: table["step"] == 0]
    assert dict(zip(first["rank"], first["wait_ns"] / 1e3, strict=True)) == {0: 300.0, 1: 200.0, 2: 0.0, 3: 250.0}
    assert (first["exposed_wait_ns"] == first["wait_ns"]).all()
    assert arrivals(profile)["last_rank"].tolist() == [2, 2]
    assert arrivals(profile)["shortest_ns"].tolist() == [TRANSFER_US * 1e3] * 2


def test_r_wait_is_one_minus_mean_over_longest() -> None:
    profile = late_run(lambda rank, step: 1500.0 if rank == 1 else 0.0, ranks=2)
    # Durations 2000 and 500 us: 1 - 1250/2000.
    assert measure(profile, "wait_ratio_pct").value == pytest.approx(37.5)
    assert measure(profile, "collective_wait_pct").value == pytest.approx(100.0 * 1500 / 2500)


def test_blame_goes_to_the_last_rank_in_proportion_to_exposed_waiting() -> None:
    profile = late_run(lambda rank, step: 300.0 if rank == (2 if step else 1) else 0.0, ranks=3, steps=4)
    table = blame(profile)
    assert table["share"].tolist() == pytest.approx([0.0, 0.25, 0.75])
    assert table["steps"].tolist() == [0, 1, 3]


def test_waiting_per_step_can_be_asked_for_one_late_rank() -> None:
    profile = late_run(lambda rank, step: 300.0 if rank == (2 if step else 1) else 0.0, ranks=3, steps=2)
    assert exposed_wait_ns(profile, 0).tolist() == [300_000, 300_000]
    assert exposed_wait_ns(profile, 0, last_rank=1).tolist() == [300_000, 0]
    assert exposed_wait_ns(profile, 1).tolist() == [0, 300_000]


def test_steadiness_is_mean_over_standard_error_of_the_lead_per_step() -> None:
    late = [100.0, 200.0, 300.0, 200.0]
    profile = late_run(lambda rank, step: late[step] if rank == 1 else 0.0, ranks=3, steps=4)
    expected = np.mean(late) / (np.std(late, ddof=1) / 2.0)
    assert steadiness(profile, (1,)) == pytest.approx(expected)
    assert steadiness(late_run(lambda rank, step: 50.0 * rank, ranks=2, steps=2), (1,)) == float("inf")


def test_steadiness_is_that_of_the_group_of_steps_with_most_waiting() -> None:
    late = [0.0, 5_000.0, 0.0, 5_100.0, 10.0, 4_900.0, 0.0, 5_000.0]
    profile = late_run(lambda rank, step: late[step] if rank == 1 else 0.0, ranks=2, steps=len(late))
    waiting = np.array([each for each in late if each > 1_000.0])
    expected = waiting.mean() / (waiting.std(ddof=1) / np.sqrt(len(waiting)))
    assert steadiness(profile, (1,)) == pytest.approx(expected)


def test_a_single_late_rank_among_many_stands_apart_by_dixon_and_by_three_sigma() -> None:
    for ranks in (4, 8, 16):
        profile = late_run(lambda rank, step: 2000.0 if rank == 1 else 3.0 * rank, ranks=ranks, steps=1)
        assert arrivals(profile)["outlier"].tolist() == [True], ranks
        evenly = late_run(lambda rank, step: 100.0 * rank, ranks=ranks, steps=1)
        assert arrivals(evenly)["outlier"].tolist() == [False], ranks


def test_two_ranks_never_have_an_outlier() -> None:
    assert not arrivals(late_run(lambda rank, step: 500.0 * rank, ranks=2))["outlier"].any()


def test_three_sigma_takes_over_where_it_can_be_reached() -> None:
    # The largest z-score of n values is (n - 1)/sqrt(n).
    assert max(DIXON_Q95) == max(n for n in range(3, 100) if (n - 1) / np.sqrt(n) < 3.0)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(0, 5000), min_size=2, max_size=6, unique=True))
def test_for_any_arrivals_the_last_to_start_is_the_last_rank_and_waits_nothing(late: list[int]) -> None:
    profile = late_run(lambda rank, step: float(late[rank]), ranks=len(late), steps=1)
    assert arrivals(profile)["last_rank"].tolist() == [int(np.argmax(late))]
    table = waits(profile).sort_values("rank")
    assert (table["wait_ns"] / 1e3).tolist() == [float(max(late) - own) for own in late]
    assert (table["wait_ns"] + table["shortest_ns"] == table["end_ns"] - table["start_ns"]).all()
