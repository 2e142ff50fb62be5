"""Figures of several causes gone at once."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.errors import UsageError
from tools.judgement.catalog import measurement
from tools.judgement.ranking import ranking
from tools.views.profile import Profile

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@pytest.fixture(scope="module")
def waiting() -> Profile:
    """Eight steps of 10 ms: 4 ms in the loader, then 100 kernels of 10 us launched every 55 us."""
    rank = RankBuilder(0)
    for step in range(8):
        start_us = step * 10_000.0
        rank.annotation(LOADER, start_us, 4_000)
        for call in range(100):
            at_us = start_us + 4_050 + 55.0 * call
            rank.operator("aten::add", at_us, 50)
            rank.kernel("add_kernel", at_us + 30, 10, call_us=at_us + 20)
        rank.step(step, start_us, start_us + 10_000)
    return profile_of(rank)


def test_one_cause_gone_together_is_that_cause_gone_alone(waiting: Profile) -> None:
    alone = next(each.alone for each in ranking(waiting).causes if each.finding.cause == "slow_data_processing")
    assert alone is not None
    assert measurement(waiting, "joint_speedup", causes="slow_data_processing").value == pytest.approx(alone.speedup)


def test_together_causes_save_no_more_than_the_sum_and_no_less_than_the_largest(waiting: Profile) -> None:
    step_ms = waiting.mean_step_ms
    keys = ("slow_data_processing/too_few_workers", "operator_dispatch/small_operators")
    saved = [step_ms - measurement(waiting, "joint_step_ms", causes=key).value for key in keys]
    both = step_ms - measurement(waiting, "joint_step_ms", causes=",".join(keys)).value
    assert max(saved) <= both + 1e-9
    assert both <= sum(saved) + 1e-9
    assert min(saved) > 0.5


def test_the_order_of_the_causes_does_not_matter(waiting: Profile) -> None:
    keys = ["slow_data_processing", "operator_dispatch"]
    values = {measurement(waiting, "joint_speedup", causes=",".join(order)).value for order in (keys, keys[::-1])}
    assert len(values) == 1


@pytest.mark.parametrize(
    "causes", ["straggler", "slow_data_processing,straggler", "", "operator_dispatch/gil_contention"]
)
def test_a_cause_that_was_not_found_is_refused(waiting: Profile, causes: str) -> None:
    with pytest.raises(UsageError, match="was not found in this run"):
        measurement(waiting, "joint_speedup", causes=causes)


def test_an_unknown_bound_is_refused(waiting: Profile) -> None:
    with pytest.raises(UsageError, match="choose one of expected, low, high"):
        measurement(waiting, "joint_speedup", causes="slow_data_processing", bound="middle")
