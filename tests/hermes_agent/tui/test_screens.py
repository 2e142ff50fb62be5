"""Snapshots of the screens: fixed size, a clock that stands still, a session that is played."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from hermes_agent.tui.messages import ASCII
from tests.hermes_agent.tui.driving import SMALL, WIDE, chat, idle, typed, until
from tests.hermes_agent.tui.fake_session import FakeSession

Compare = Callable[..., bool]
Before = Callable[[Pilot[int]], Awaitable[None]]


def lines(*texts: str, keys: tuple[str, ...] = ()) -> Before:
    """Waits for the diagnosis, types some lines, then presses some keys."""

    async def drive(pilot: Pilot[int]) -> None:
        await idle(pilot)
        for text in texts:
            await typed(pilot, text)
        await pilot.press(*keys)
        await idle(pilot)

    return drive


def test_start_without_a_run_says_how_to_open_one(snap_compare: Compare) -> None:
    assert snap_compare(chat(FakeSession(), given=False), terminal_size=WIDE, run_before=lines())


def test_half_way_the_panel_shows_what_was_looked_at(snap_compare: Compare) -> None:
    session = FakeSession(hold=True)

    async def half_way(pilot: Pilot[int]) -> None:
        await until(session.half_way.is_set, pilot)
        await pilot.pause(0.3)

    assert snap_compare(chat(session), terminal_size=WIDE, run_before=half_way)


def test_finished_diagnosis_on_a_wide_terminal(snap_compare: Compare) -> None:
    assert snap_compare(chat(FakeSession(), model="small-model"), terminal_size=WIDE, run_before=lines())


@pytest.mark.parametrize("glyphs", ["unicode", "ascii"])
def test_finished_diagnosis_on_a_small_terminal(snap_compare: Compare, glyphs: str) -> None:
    app = chat(FakeSession(), glyphs=ASCII) if glyphs == "ascii" else chat(FakeSession())
    assert snap_compare(app, terminal_size=SMALL, run_before=lines())


def test_chosen_citation_is_highlighted(snap_compare: Compare) -> None:
    assert snap_compare(chat(FakeSession()), terminal_size=SMALL, run_before=lines(keys=("tab", "right")))


def test_evidence_screen_shows_the_figure_measured_again_and_its_rows(snap_compare: Compare) -> None:
    before = lines(keys=("tab", "enter"))
    assert snap_compare(chat(FakeSession()), terminal_size=WIDE, run_before=before)


def test_evidence_that_differs_says_so_on_a_small_terminal(snap_compare: Compare) -> None:
    assert snap_compare(chat(FakeSession(agrees=False)), terminal_size=SMALL, run_before=lines("/show E1"))


def test_answer_with_a_table_and_citations(snap_compare: Compare) -> None:
    assert snap_compare(chat(FakeSession()), terminal_size=WIDE, run_before=lines("which rank is slow?"))


def test_errors_stand_in_the_conversation(snap_compare: Compare) -> None:
    before = lines("/open no-such-file.json", "/show E99", "/nonsense")
    assert snap_compare(chat(FakeSession(), given=False), terminal_size=SMALL, run_before=before)


def test_help_lists_commands_and_keys(snap_compare: Compare) -> None:
    assert snap_compare(chat(FakeSession(), given=False), terminal_size=WIDE, run_before=lines("/help"))


def test_ranks_as_a_table(snap_compare: Compare) -> None:
    assert snap_compare(chat(FakeSession()), terminal_size=WIDE, run_before=lines("/ranks"))
