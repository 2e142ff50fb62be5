"""Typing is never held up: keys arrive in order while a job runs, in tiny terminals and with hostile pastes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import pytest
from textual import events

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit
from hermes_agent.tui.messages import ASCII, UNICODE
from hermes_agent.tui.screens import Table
from hermes_agent.tui.work import Cancelled
from tests.hermes_agent.tui.driving import SMALL, WIDE, chat, idle, typed
from tests.hermes_agent.tui.fake_session import HOSTILE, FakeSession

TINY = (20, 6)
LONGEST_S = 60.0  # then the test fails instead of waiting on


@dataclass
class Busy(FakeSession):
    """Keeps its thread busy with Python code until it is let go."""

    def diagnose(self, emit: Emit, cancelled: Cancelled) -> Diagnosis:
        """The diagnosis, after the work."""
        self.half_way.set()
        ends = time.monotonic() + 30.0
        while not self.go.is_set() and time.monotonic() < ends:
            sum(range(2000))
        return super().diagnose(emit, cancelled)


async def test_keys_arrive_in_order_while_a_job_works() -> None:
    session = Busy()
    app = chat(session)
    async with app.run_test(size=SMALL) as pilot:
        async with asyncio.timeout(LONGEST_S):
            while not session.half_way.is_set():
                await asyncio.sleep(0.01)
        for character in "why is rank 1 slow":  # a pilot waits until the whole process is idle, a person does not
            app.post_message(events.Key("space" if character == " " else character, character))
        async with asyncio.timeout(LONGEST_S):
            while app.prompt.value != "why is rank 1 slow":
                await asyncio.sleep(0.01)
        assert app.controller.busy
        session.go.set()
        await idle(pilot)
        await pilot.press("enter")
        await idle(pilot)
    assert session.asked == ["why is rank 1 slow"]


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_a_tiny_terminal_and_resizing_break_nothing(ascii_only: bool) -> None:
    app = chat(FakeSession(), glyphs=ASCII if ascii_only else UNICODE)
    async with app.run_test(size=TINY) as pilot:
        await idle(pilot)
        for line in ("/help", "/ranks", "/evidence"):
            await typed(pilot, line)
            await pilot.press("escape")
        for line in ("/series", "/heatmap", "/breakdown", "/critical-path", "why?"):
            await typed(pilot, line)
        await pilot.press("/")
        for size in (WIDE, (1, 1), (300, 3), TINY):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert app.is_running
        assert not app.query(".error")


async def test_a_pasted_megabyte_and_control_characters_are_one_short_line() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        app.prompt.post_message(events.Paste("x" * 1_000_000 + "\n/quit"))
        await pilot.pause()
        assert len(app.prompt.value) == 4000
        assert app.is_running
        app.prompt.value = ""
        app.prompt.post_message(events.Paste(f"/show {HOSTILE}\x00\x07"))
        await pilot.pause()
        await pilot.press("enter")
        await idle(pilot)
        assert app.is_running
        assert "\x1b" not in app.export_screenshot()


async def test_a_table_shows_its_rows_in_40_columns_and_10_lines() -> None:
    app = chat(FakeSession(), glyphs=ASCII)
    async with app.run_test(size=(40, 10)) as pilot:
        await idle(pilot)
        await typed(pilot, "/ranks")
        table = app.screen.query_one(Table)
        assert table.row_count == 2
        assert table.content_region.height >= table.header_height + table.row_count


async def test_lines_that_are_pasted_become_one_where_the_cursor_is() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        app.prompt.fill("what does  mean?")
        app.prompt.cursor_position = len("what does ")
        app.prompt.post_message(events.Paste("NCCL WARN\n  timeout\r\nrank 3\x1b[31m"))
        await pilot.pause()
        assert app.prompt.value == "what does NCCL WARN timeout rank 3 mean?"


async def test_a_short_conversation_stays_at_the_top_when_the_list_of_commands_closes() -> None:
    app = chat(FakeSession(), given=False)
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        await pilot.press(*"/open ")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        await pilot.pause()
        assert app.conversation.children[0].region.y == 0
