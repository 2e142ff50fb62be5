"""Tables of an answer on the drawn screen: every figure and every citation stands whole at any width."""

from __future__ import annotations

import re

import pytest
from textual.content import Content

from hermes_agent.tui.answer_tables import drawn, wrapped
from hermes_agent.tui.messages import AnswerMessage
from tests.hermes_agent.tui.driving import chat, idle
from tests.hermes_agent.tui.fake_session import FakeSession

NAME = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, Epilogue>"
KERNELS = [
    ("68.7 ms [E71]", "12 calls [E72]"),
    ("8.49 ms [E77]", "84 calls [E78]"),
    ("7.38 ms [E7]", "122 calls [E80]"),
]
TEXT = "| per step | runs per step | kernel |\n| --- | --- | --- |\n" + "\n".join(
    f"| {took} | {runs} | `{NAME}` |" for took, runs in KERNELS
)
ROWS = [("n0.09ace8ea", "68.7", "12", "e0.42844"), ("n0.457ebeaf", "43.2", "1204", "e0.48026")]
BY_ID = "| id | ms | count | longest | name |\n| --- | --- | --- | --- | --- |\n" + "\n".join(
    f"| {' | '.join(row)} | `at::native::{'x' * 70}` |" for row in ROWS
)
SIZES = [(60, 30), (80, 24), (100, 40), (120, 40)]


@pytest.mark.parametrize("size", SIZES)
async def test_figures_ids_and_citations_stand_whole_on_the_drawn_screen(size: tuple[int, int]) -> None:
    app = chat(FakeSession())
    async with app.run_test(size=size) as pilot:
        await idle(pilot)
        for text, whole in ((TEXT, sum(KERNELS, ())), (BY_ID, sum(ROWS, ()))):
            message = AnswerMessage("run")
            await app.conversation.mount(message)
            await message.write(f"{text}\n")
            await idle(pilot)
            app.conversation.scroll_end(animate=False)
            await pilot.pause()
            lines = ["".join(part.text for part in line) for line in app.screen._compositor.render_strips()]
            shown = "\n".join(lines)
            missing = [each for each in whole if not re.search(rf"(?<!\S){re.escape(each)}(?!\S)", shown)]
            assert not missing, shown
            message.find_citations()
            assert sorted(message.cited) == sorted(re.findall(r"E\d+", text))
            await message.remove()


def test_a_citation_of_several_ids_is_not_broken_and_nothing_is_lost() -> None:
    text = Content("a sentence that ends with [E1, C2] and a_name_that_is_longer_than_a_line")
    lines = [line.plain for line in wrapped(text, 14)]
    assert "[E1, C2]" in "\n".join(lines)
    assert "".join(lines).replace(" ", "") == text.plain.replace(" ", "")
    assert all(len(line) <= 14 for line in lines)


def test_rows_become_lines_where_the_columns_do_not_fit() -> None:
    table = drawn([Content("per step"), Content("kernel")], [[Content("68.7 ms [E71]"), Content("k" * 30)]], 24)
    assert table.plain == f"per step: 68.7 ms [E71]\nkernel:\n{'k' * 24}\n{'k' * 6}"
