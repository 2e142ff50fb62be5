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
    assert len(dispatch.short) == 10
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
