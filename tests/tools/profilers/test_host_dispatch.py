"""Short operators on ranks without a device."""

from __future__ import annotations

from tests.synthetic import RankBuilder, profile_of
from tools.intervals import length
from tools.profilers.host_dispatch import host_dispatch


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
