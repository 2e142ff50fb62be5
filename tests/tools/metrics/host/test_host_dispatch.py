"""Short operators on ranks without a device."""

from __future__ import annotations

import pytest

from tests.asked import CPU, ask, asking
from tests.recorded_runs import recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, profile_of
from tools.intervals import length
from tools.knowledge.thresholds import Thresholds
from tools.metrics.registry import measure
from tools.views.host.dispatch import host_dispatch

analyze = asking(*CPU)


def test_short_outermost_operators_and_the_pauses_between_them_are_counted() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::conv2d", 0, 500)
    rank.operator("aten::add", 100, 5)  # inside the long one: not dispatch of its own
    for number in range(10):
        rank.operator("aten::mul", 500 + 20 * number, 12)
    rank.step(0, 0, 700)
    dispatch = host_dispatch(profile_of(rank), 0)
    assert len(dispatch.rows) == 11
    assert length(dispatch.moments) == 200_000


def test_a_long_pause_of_python_is_not_dispatch() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::mul", 0, 10)
    rank.operator("aten::mul", 300, 10)
    rank.step(0, 0, 310)
    assert length(host_dispatch(profile_of(rank), 0).moments) == 20_000


def test_short_operators_inside_the_loader_are_the_loaders() -> None:
    rank = RankBuilder(device=None)
    rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 100)
    rank.operator("aten::mul", 10, 10)
    rank.operator("aten::mul", 110, 10)
    rank.step(0, 0, 120)
    assert length(host_dispatch(profile_of(rank), 0).moments) == 20_000


def looping(name: str, calls: int, call_us: float) -> RankBuilder:
    """One step of a convolution and of calls of one operator, each followed by a pause of 5 us."""
    rank = RankBuilder(device=None)
    rank.operator("aten::conv2d", 0, 1000)
    for number in range(calls):
        rank.operator(name, 1000 + (call_us + 5) * number, call_us)
    rank.step(0, 0, 1000 + (call_us + 5) * calls)
    return rank


def test_short_operators_of_one_kind_called_hundreds_of_times_are_repeated() -> None:
    dispatch = host_dispatch(profile_of(looping("aten::mul", 200, 10)), 0)
    assert len(dispatch.repeated) == 200
    assert length(dispatch.repeated_moments) == 200 * 15_000


def test_tens_of_calls_or_long_ones_are_not_repeated() -> None:
    for rank in (looping("aten::mul", 40, 10), looping("aten::linear", 200, 80)):
        dispatch = host_dispatch(profile_of(rank), 0)
        assert len(dispatch.repeated) == 0
        assert length(dispatch.repeated_moments) == 0


def test_slow_calls_of_a_short_kind_are_its_own() -> None:
    rank = looping("aten::mul", 200, 10)
    rank.operator("aten::mul", 4000, 700)
    rank.step(1, 4000, 4700)
    dispatch = host_dispatch(profile_of(rank), 0)
    assert len(dispatch.repeated) == 201
    assert length(dispatch.repeated_moments) == 200 * 15_000 + 700_000


def test_gradients_of_parts_are_repeated_however_long_they_take() -> None:
    name = "autograd::engine::evaluate_function: SelectBackward0"
    assert len(host_dispatch(profile_of(looping(name, 200, 80)), 0).repeated) == 200
    assert len(host_dispatch(profile_of(looping(name, 20, 80)), 0).repeated) == 0


def time_steps(calls: int, gradients: int) -> RankBuilder:
    """One step in which a cell is called in a loop: 100 us of a matrix product and 40 us of short operators each."""
    rank = RankBuilder(device=None)
    for number in range(calls):
        rank.operator("aten::lstm_cell", 150 * number, 140)
        rank.operator("aten::mm", 150 * number, 100)
        rank.operator("aten::mul", 150 * number + 100, 20)
    for number in range(gradients):
        rank.operator("torch::autograd::AccumulateGrad", 150 * calls + 10 * number, 5)
    rank.step(0, 0, 150 * calls + 10 * gradients)
    return rank


def test_a_loop_over_the_same_layers_is_repeated_without_its_matrix_products() -> None:
    dispatch = host_dispatch(profile_of(time_steps(64, 10)), 0)
    assert len(dispatch.repeated) == 64
    assert length(dispatch.repeated_moments) == 64 * 50_000


def test_as_many_calls_of_as_many_layers_are_no_loop() -> None:
    for gradients in (0, 17):
        assert len(host_dispatch(profile_of(time_steps(64, gradients)), 0).repeated) == 0


def test_a_short_matrix_product_that_computes_is_not_dispatch() -> None:
    def dispatch(size: int) -> float:
        rank = RankBuilder(device=None)
        for number in range(64):
            rank.operator("aten::lstm_cell", 50 * number, 45)
            rank.operator("aten::mm", 50 * number, 40, dims=[[size, size], [size, size]], types=["float", "float"])
        rank.operator("torch::autograd::AccumulateGrad", 3_200, 5)
        rank.step(0, 0, 3_210)
        return length(host_dispatch(profile_of(rank), 0).repeated_moments) / 64e3

    # 2 * 80^3 operations take 51 us at 20 GFLOP/s, 2 * 8^3 take 0.05 us.
    assert dispatch(80) == pytest.approx(10.0)
    assert dispatch(8) == pytest.approx(50.0)


@pytest.mark.parametrize("calls", [99, 100])
def test_pauses_away_from_repeated_calls_are_not_theirs(calls: int) -> None:
    rank = RankBuilder(device=None)
    for number in range(400):
        rank.operator("aten::mm", 245 * number, 200)
    for number in range(calls):
        rank.operator("aten::mul", 98_000 + number, 1)
    rank.step(0, 0, 98_000 + calls)
    beside_us = 0 if calls < 100 else 45
    assert length(host_dispatch(profile_of(rank), 0).repeated_moments) == pytest.approx(
        (calls * (calls >= 100) + beside_us) * 1000
    )


def test_what_a_recorded_step_takes_longer_is_spread_over_it_and_at_the_least_all_in_short_operators() -> None:
    def recorded(rank: int) -> RankBuilder:
        builder = RankBuilder(rank=rank, device=None)
        for step in range(3):
            begin = 5800 * step
            builder.operator("aten::conv2d", begin, 2000)
            for number in range(100):
                builder.operator("aten::mul", begin + 2000 + 38 * number, 25)
            builder.step(1000 + step, begin, begin + 5800)
        return builder

    profile = recorded_profile(records_of([step_rows(0, [4.0] * 40)]), recorded)
    assert measure(profile, "short_operator_ms", rank=0).value == pytest.approx(3.8 * 4.0 / 5.8)
    assert measure(profile, "short_operator_pct", rank=0).value == pytest.approx(100.0 * 3.8 / 5.8)
    assert measure(profile, "least_short_operator_ms", rank=0).value == pytest.approx(2.0)
    check = ask(profile, "cpu.small_operators")
    assert (saving := check.findings[0].saving) is not None
    assert saving.least_ms == pytest.approx(0.4 * 2.0)
    assert saving.most_ms == pytest.approx(0.9 * 3.8)


def test_short_operators_are_a_finding_from_where_fusing_them_gives_back_a_cause_worth_naming() -> None:
    limits = Thresholds()
    cautious = limits["host_short_operators_pct"] * (1.0 - limits["dispatch_left_cautious"])
    assert cautious == pytest.approx(limits["cause_share_pct"])
