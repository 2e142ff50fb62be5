"""The stacked bars: cells add up, and every part keeps its share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.report.pictures.data import MOST_RANKS, PARTS, TYPICAL_RANKS
from hermes_agent.tui.messages import ASCII, UNICODE
from hermes_agent.tui.pictures.draw import cells, stacked
from tests.hermes_agent.tui.fake_session import row

SHARES = st.lists(st.floats(min_value=0, max_value=1e6), min_size=6, max_size=6)


def test_a_bar_divides_its_cells_as_the_step_is_divided() -> None:
    drawn = stacked([row(0, None, 94.0, 0.0), row(1, None, 34.0, 60.0)], 2, 123, ASCII).plain.splitlines()
    assert drawn[0] == "rank 0    " + "#" * 94 + "x" + ":" * 5 + "    100.0 ms"
    assert drawn[1] == "rank 1    " + "#" * 34 + "x" + "d" * 60 + ":" * 5 + "    100.0 ms"
    assert drawn[2] == "# computation  x exposed communication  d data wait  : host"


def test_a_faster_rank_has_a_shorter_bar() -> None:
    drawn = stacked([row(0, None, 94.0, 0.0), row(1, None, 44.0, 0.0)], 2, 123, ASCII).plain.splitlines()
    assert drawn[1] == "rank 1    " + "#" * 44 + "x" + ":" * 5 + " " * 50 + "     50.0 ms"


def test_of_many_ranks_the_outliers_and_a_few_typical_ones_are_drawn_and_the_others_counted() -> None:
    slow = {700, 3, 41}
    rows = [row(rank, None, 94.0 + rank % 7 * 0.1, 0.0 if rank not in slow else 60.0) for rank in range(1000)]
    drawn = stacked(rows, 1021, 80, UNICODE).plain.splitlines()
    named = [int(line.split()[1]) for line in drawn if line.startswith("rank ")]
    assert len(named) == MOST_RANKS
    assert slow < set(named)
    assert named == sorted(named)
    said = " ".join(drawn)
    assert f"{MOST_RANKS - TYPICAL_RANKS} ranks that differ most, typical ranks " in said
    assert "1,005 more ranks not shown." in said
    typical = [line for line in drawn if line.startswith("rank ") and line.endswith("100.3 ms")]
    assert len(typical) >= TYPICAL_RANKS  # the median is 94.3 ms of computation


def test_no_line_is_wider_than_the_screen() -> None:
    for width in (40, 78, 200):
        drawn = stacked([row(0, None, 94.0, 3.0)], 1, width, UNICODE).plain
        assert max(len(line) for line in drawn.splitlines()) <= width


@given(SHARES, st.integers(min_value=1, max_value=300))
def test_cells_never_exceed_the_bar_and_each_is_within_one_of_its_share(values: list[float], width: int) -> None:
    whole = sum(values)
    counts = cells(values, whole, width)
    assert len(counts) == len(PARTS)
    if whole == 0:
        assert sum(counts) == 0
        return
    assert sum(counts) == width
    assert all(abs(count - value * width / whole) <= 1 + 1e-6 for count, value in zip(counts, values, strict=True))
