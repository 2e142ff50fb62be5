"""Conversations that are kept, opened again and written to files; sources that are attached."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from textual.widgets import DataTable

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit, SourceWanted
from hermes_agent.model.request import Request
from hermes_agent.model.turn import ToolCallRecord, Turn
from hermes_agent.sessions.store import SessionStore
from hermes_agent.tui.app import HermesChat
from hermes_agent.tui.history import Compared
from hermes_agent.tui.messages import AnswerMessage
from hermes_agent.tui.screens import SessionScreen
from hermes_agent.tui.work import Cancelled
from tests.hermes_agent.tui.driving import SMALL, WIDE, idle, said, typed, until
from tests.hermes_agent.tui.fake_session import HOSTILE, FakeSession, openings

CALL = ToolCallRecord(handle="R1", name="find_events", arguments={"rank": 3}, seconds=0.4, size=31, rows=2)


def kept_chat(cache: Path, session: FakeSession, resume: str | None = None) -> HermesChat:
    ways = openings(session, given=resume is None)
    ways = replace(ways, store=lambda: SessionStore(cache), request=lambda _: session, resume=resume)
    app = HermesChat(lambda: ways, clock=lambda: 0.0)
    app.prompt.cursor_blink = False
    return app


async def test_a_conversation_is_kept_turn_by_turn_and_shown_again_as_it_was(tmp_path: Path) -> None:
    app = kept_chat(tmp_path, FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, f"why {HOSTILE}?")
        before = said(app).partition("why ")[2]
    (row,) = SessionStore(tmp_path).sessions()
    assert (row.title, row.turns) == ("run", 1)
    resumed = FakeSession()
    again = kept_chat(tmp_path, resumed, resume="")
    async with again.run_test(size=SMALL) as pilot:
        await idle(pilot)
        assert isinstance(again.screen, SessionScreen)
        assert str(again.screen.query_one(DataTable).get_row_at(0)[0]) == row.id
        await pilot.press("enter")
        await idle(pilot)
        assert not again.query(".error")
        shown = said(again).partition("why ")[2]
        assert shown.startswith(before)
        assert again.query_one(AnswerMessage).cited == ("E2", "C1", "E2")
        assert f"Resumed the session {row.id} with 1 question." in shown
        assert again.conversation.scroll_y == again.conversation.max_scroll_y > 0
        await typed(pilot, "and then?")
    assert [turn.question for turn in resumed.turns] == [f"why {HOSTILE}?", "and then?"]
    assert SessionStore(tmp_path).sessions()[0].turns == 2


async def test_a_diagnosis_that_was_stopped_goes_on_in_its_session_when_the_run_is_opened_again(tmp_path: Path) -> None:
    session = FakeSession(hold=True)
    app = kept_chat(tmp_path / "cache", session)
    async with app.run_test(size=SMALL) as pilot:
        await until(session.half_way.is_set, pilot)
        await pilot.press("escape")
        await idle(pilot)
        (stopped,) = SessionStore(tmp_path / "cache").sessions()
        session.hold = False
        await typed(pilot, f"/open {tmp_path}")
        assert app.controller.runs.current.kept == stopped.id
        await typed(pilot, f"/open {tmp_path}")
        assert app.controller.runs.current.kept != stopped.id
    (row,) = SessionStore(tmp_path / "cache").sessions()
    assert (row.id, len(row.paths)) == (stopped.id, 2)


async def test_resuming_an_unknown_session_and_a_damaged_file_are_one_sentence_each(tmp_path: Path) -> None:
    app = kept_chat(tmp_path, FakeSession(), resume="nonsense")
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        assert "there is no session nonsense" in said(app)
    damaged = tmp_path / "damaged"
    store = SessionStore(damaged)
    store.close()
    for path in store.path.parent.iterdir():
        path.write_bytes(b"not a database" * 100)
    app = kept_chat(damaged, FakeSession())
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        await typed(pilot, "why?")
        assert said(app).count("This conversation is not kept.") == 1
        assert "Rank 1 loses 60 ms [E2]" in said(app)


async def test_the_conversation_is_exported_whole_and_never_over_a_file(tmp_path: Path) -> None:
    app = HermesChat(lambda: openings(FakeSession(), given=False), clock=lambda: 0.0)
    target = tmp_path / "talk.json"
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, f"/export {target}")
        assert "No run was opened yet, so there is no conversation to write." in said(app)
    app = kept_chat(tmp_path / "cache", FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, f"why {HOSTILE}?")
        await typed(pilot, f"/export {target}")
        written = json.loads(target.read_text())
        (turn,), (shown,) = written["turns"], written["diagnoses"]
        assert (shown["run"], shown["after_turns"]) == ("run", 0)
        assert shown["diagnosis"] == json.loads(app.controller.diagnosis.model_dump_json(by_alias=True))
        assert (turn["run"], turn["question"], turn["ids"]) == ("run", f"why {HOSTILE}?", ["E2", "C1"])
        target.write_text("mine")
        await typed(pilot, f"/export {target}")
        assert target.read_text() == "mine"
        assert "exists and was not replaced" in said(app)
        await typed(pilot, f"/export {target}!")
        assert json.loads(target.read_text())["schema"] == "hermes-dx/conversation/1"
        await typed(pilot, f"/export {tmp_path / 'talk.md'}")
        text = (tmp_path / "talk.md").read_text()
    assert text.startswith("# Conversation\n\n## @run (run)\n\n### Problem\n\nThe first cause is slow data")
    assert "\n#### Evidence\n" in text
    assert "\n\n> why [bold red]x[/] red?\n\nRank 1 loses" in text
    assert "\x1b" not in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "talk.json", "talk.md"]


@dataclass
class Asking(FakeSession):
    """Asks for a source while it diagnoses."""

    asks: bool = field(default=True)

    def diagnose(self, emit: Emit, cancelled: Cancelled) -> Diagnosis:
        """The diagnosis, which wants a log."""
        if self.asks:
            emit(SourceWanted("Is there a log of rank 1?", "the log of rank 1", (1,), "slow link or not"))
        return super().diagnose(emit, cancelled)


async def test_a_source_that_would_decide_is_asked_for_attached_or_skipped(tmp_path: Path) -> None:
    log = tmp_path / "rank1.log"
    log.touch()
    session = Asking()
    app = kept_chat(tmp_path / "cache", session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        assert "Is there a log of rank 1?\n/attach PATH adds it" in said(app)
        await typed(pilot, f"/attach {tmp_path / 'nothing.log'}")
        assert "there is no such file or folder" in said(app)
        await typed(pilot, f"/attach {log}")
        assert session.attached == (log,)
        await typed(pilot, "/skip")
        assert "No source was asked for" in said(app)
    session = Asking()
    app = kept_chat(tmp_path / "cache", session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, "/skip")
        assert "Going on without it (the log of rank 1)." in said(app)
        assert session.skipped


async def test_tool_calls_of_a_kept_turn_are_lines_again(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    identifier = store.new(Request(paths=(Path("run"),)), "run")
    store.add_turn(identifier, Turn(question="which?", answer="Rank 3 [E2].", calls=[CALL]))
    app = kept_chat(tmp_path, FakeSession(), resume=identifier)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        assert "R1 find_events(rank=3): 2 rows, 31 characters, 0.4 s" in said(app)
        assert app.query_one(AnswerMessage).cited == ("R1", "E2")


async def test_what_two_runs_showed_is_shown_and_exported_again_and_is_no_question(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "cache")
    identifier = store.new(Request(paths=(Path("run"),)), "run")
    store.add_turn(identifier, Turn(question="which?", answer="Rank 3 [E2]."))
    shown = Compared("/compare @a @b", "From @a to @b", ("Steps fell from 2 ms to 1 ms.", "- phases"))
    store.add_turn(identifier, shown.as_turn())
    session = FakeSession()
    app = kept_chat(tmp_path / "cache", session, resume=identifier)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        assert "Steps fell from 2 ms to 1 ms." in said(app)
        assert "with 1 question." in said(app)
        await typed(pilot, f"/export {tmp_path / 'talk.md'}")
    written = (tmp_path / "talk.md").read_text()
    assert "> /compare @a @b\n\n**From @a to @b**\n\nSteps fell from 2 ms to 1 ms.\n\n" in written
    assert [turn.question for turn in session.turns] == ["which?"]


def test_a_comparison_is_read_again_from_its_turn_and_a_question_is_none() -> None:
    shown = Compared("/confirm A1 @b", "A1 put to the test", ("Measured speedup 2x.",))
    assert Compared.of(shown.as_turn()) == shown
    assert Compared.of(Turn(question="/compare", answer="x")) is None
