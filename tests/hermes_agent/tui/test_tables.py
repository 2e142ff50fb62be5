"""Tables fitted to a width: names lose their middle, figures nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.tui.sections import rank_table
from hermes_agent.tui.tables import PADDING, fitted, folded
from tests.hermes_agent.tui.fake_session import diagnosis

NAMES = st.text(alphabet="abcdef_:", min_size=1, max_size=60)


def width_of(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> int:
    cells = zip(*([column.split("\n") for column in columns], *([[cell] for cell in row] for row in rows)), strict=True)
    return sum(max(len(line) for lines in column for line in lines) + PADDING for column in cells)


def test_a_long_name_keeps_both_ends() -> None:
    assert folded("void gemm_kernel_sm80_128x64", 12) == "void g…28x64"
    assert folded("abcdefghij", 5) == "ab…ij"
    assert folded("abc", 5) == "abc"


def test_the_rank_table_fits_80_columns_and_leaves_out_only_zeros() -> None:
    view = rank_table(diagnosis())
    table = fitted(view.columns, view.rows, 72)
    assert width_of(table.columns, table.rows) <= 72
    assert set(table.left_out) == {"exposed copies", "idle with queued kernels"}
    shown = {cell for row in table.rows for cell in row}
    assert {cell for row in view.rows for cell in row if float(cell)} <= shown


def test_rank_0_is_no_zero() -> None:
    names = ("rank", "slowest rank", *(f"a part of the step {part}" for part in range(8)))
    table = fitted(names, (("0", "0", *("0.00",) * 7, "12.50"),), 60)
    assert table.columns[:2] == ("rank", "slowest\nrank")
    assert table.rows == (("0", "0", "12.50"),)


def test_a_wrapped_text_loses_nothing_and_fits() -> None:
    result = "too few steps: 3 of at least 8, so 12.5 ms [E7] cannot be judged. " * 3
    table = fitted(("check", "result"), (("step_time.trend", result),), 40, wrap=True)
    assert table.rows[0][1].split() == result.split()
    assert max(map(len, table.rows[0][1].split("\n"))) <= 40 - len("step_time.trend") - 2 * PADDING


def test_dates_and_figures_with_units_stay_whole() -> None:
    row = ("458824c9", "a very long title of a run " * 3, "2026-11-22 22:19", "12.5 ms", "/" + "path" * 20)
    table = fitted(("id", "run", "last used", "took", "paths"), (row,), 72)
    assert (table.rows[0][2], table.rows[0][3]) == (row[2], row[3])
    assert width_of(table.columns, table.rows) <= 72


def test_a_table_with_room_is_left_as_it_is() -> None:
    table = fitted(("name", "ms"), (("a" * 30, "1.5"),), 78)
    assert table.rows == (("a" * 30, "1.5"),)
    assert table.left_out == ()


@given(st.lists(st.tuples(NAMES, NAMES, st.floats(0, 1e6)), min_size=1, max_size=5), st.integers(40, 120))
def test_figures_stay_whole_and_every_table_fits(rows: list[tuple[str, str, float]], width: int) -> None:
    cells = tuple((first, second, f"{ms:.2f}") for first, second, ms in rows)
    table = fitted(("kernel", "module", "ms"), cells, width)
    assert width_of(table.columns, table.rows) <= width
    if "ms" not in table.left_out:
        assert [row[-1] for row in table.rows] == [row[-1] for row in cells]
