"""The stacked bars: cells add up, and every part keeps its share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.report.pictures.data import PARTS
from hermes_agent.tui.messages import ASCII, UNICODE
from hermes_agent.tui.pictures.draw import ROWS_SHOWN, cells, stacked
from tests.hermes_agent.tui.fake_session import row

SHARES = st.lists(st.floats(min_value=0, max_value=1e6), min_size=6, max_size=6)


def test_a_bar_divides_its_cells_as_the_step_is_divided() -> None:
    drawn = stacked([row(0, None, 94.0, 0.0), row(1, None, 34.0, 60.0)], 123, ASCII).plain.splitlines()
    assert drawn[0] == "rank 0    " + "#" * 94 + "x" + ":" * 5 + "    100.0 ms"
    assert drawn[1] == "rank 1    " + "#" * 34 + "x" + "d" * 60 + ":" * 5 + "    100.0 ms"
    assert drawn[2] == "# computation  x exposed communication  d data wait  : host"


def test_a_faster_rank_has_a_shorter_bar() -> None:
    drawn = stacked([row(0, None, 94.0, 0.0), row(1, None, 44.0, 0.0)], 123, ASCII).plain.splitlines()
    assert drawn[1] == "rank 1    " + "#" * 44 + "x" + ":" * 5 + " " * 50 + "     50.0 ms"


def test_more_ranks_than_fit_are_counted_and_not_dropped_silently() -> None:
    rows = [row(rank, None, 94.0, 0.0) for rank in range(ROWS_SHOWN + 3)]
    drawn = stacked(rows, 80, UNICODE).plain
    assert "and 3 more ranks: /ranks" in drawn
    assert f"rank {ROWS_SHOWN} " not in drawn


def test_no_line_is_wider_than_the_screen() -> None:
    for width in (40, 78, 200):
        drawn = stacked([row(0, None, 94.0, 3.0)], width, UNICODE).plain
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
