"""Names and figures in tables of answers."""

from __future__ import annotations

import pytest

from hermes_agent.questions.prose import milliseconds, row_table, shortened

NCCL = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"


@pytest.mark.parametrize(
    ("name", "width", "short"),
    [
        ("aten::mm", 20, "aten::mm"),
        (NCCL, 42, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"),
        ("void at::native::(anonymous namespace)::softmax<float>(float*, long)", 30, "at::native::softmax<float>"),
        ("abcdefghijklmnop", 9, "abcdef…op"),
        ("enumerate(DataLoader)#_Iter.__next__", 17, "enumerate(D…ext__"),
    ],
)
def test_a_long_name_loses_its_arguments_then_its_middle(name: str, width: int, short: str) -> None:
    assert shortened(name, width) == short


def test_of_a_path_the_end_is_kept() -> None:
    assert shortened("/home/user/lib/model.py(44): forward", 20, ends=True) == "…del.py(44): forward"


def test_a_table_fits_eighty_columns_and_no_bar_splits_a_cell() -> None:
    text = row_table(("id", "ms", "name"), [["e0.1", "1.0", "x|" * 60], ["e0.200000", "100", NCCL]])
    assert max(len(line.replace(r"\|", "|")) for line in text.splitlines()) <= 80


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (3.999, "4.00"), (0.007, "0.007"), (69.08, "69.1"), (1234.5, "1234")]
)
def test_figures_of_a_column_have_three_digits(value: float | None, text: str) -> None:
    assert milliseconds(value) == text
