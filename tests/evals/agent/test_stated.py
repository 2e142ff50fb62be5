"""Text cut into statements with figures."""

from __future__ import annotations

import pytest

from evals.agent.stated import Figure, figure_of, stated

TABLE = """Device time of rank 3, in ms per step:

| id | ms | % | takes | name |
| --- | --- | --- | --- | --- |
| m0.1 | 11.0 | 7.1 | 2.5 | `gemm` |"""


@pytest.mark.parametrize(
    ("text", "figure", "same"),
    [
        ("it takes 32.8 ms [E1]", "32.8 ms", True),
        ("it takes 32800 us", "32.8 ms", True),
        ("it takes 33.8 ms", "32.8 ms", False),
        ("it takes 32.8 % of the step", "32.8 ms", False),
        ("1.08x faster", "1.08 x", True),
        ("launches 246 kernels", "246", True),
        ("launches 245 kernels", "246", False),
        ("step 246 of rank 246 [E246]", "246", False),
        ("holds 1,024 MiB", "1 GiB", True),
    ],
)
def test_a_figure_counts_with_its_unit(text: str, figure: str, same: bool) -> None:
    (statement,) = stated(text)
    assert any(found.near(figure_of(figure)) for found in statement.figures) is same


def test_a_row_has_the_units_of_its_columns_and_the_words_of_its_heading() -> None:
    heading, row = stated(TABLE)
    assert heading.figures == ()
    assert {Figure("time", 11.0), Figure("share", 7.1), Figure("time", 2.5)} <= {*row.figures}
    assert "Device time of rank 3" in row.text
    assert "gemm" in row.text
    assert row.ranks == [3]


def test_ranks_are_read_one_by_one_in_lists_and_in_spans() -> None:
    assert stated("Rank 1 waits for ranks 2, 5 and 7")[0].ranks == [1, 2, 5, 7]
    assert stated("Ranks 0 to 3 wait")[0].ranks == [0, 1, 2, 3]
