"""What is cited in a message is opened in the run that the message is about, whichever is under discussion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from textual.content import Content
from textual.pilot import Pilot
from textual.style import Style
from textual.widgets import Static

from hermes_agent.locations.places import Place
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit, ToolCalled
from hermes_agent.model.request import Request
from hermes_agent.model.turn import ToolCallRecord
from hermes_agent.session import Shown
from hermes_agent.sessions.store import SessionStore
from hermes_agent.tui.app import HermesChat
from hermes_agent.tui.messages import AnswerMessage, CitedMessage, SectionMessage, ToolLine
from hermes_agent.tui.screens import EvidenceScreen, ResultScreen
from hermes_agent.tui.work import Cancelled, ChatSession
from tests.hermes_agent.tui.driving import WIDE, idle, said, typed
from tests.hermes_agent.tui.fake_session import FakeSession, openings


@dataclass
class OwnFigures(FakeSession):
    """A run with figures of its own: its E2 is ``e2_ms``, its R1 names it."""

    e2_ms: float = 0.0

    def diagnose(self, emit: Emit, cancelled: Cancelled) -> Diagnosis:
        """The diagnosis, for which a tool was called."""
        emit(ToolCalled(ToolCallRecord(handle="R1", name=f"tool_{self.e2_ms:.0f}", seconds=0.1, size=10)))
        return super().diagnose(emit, cancelled)

    def show(self, identifier: str) -> Shown:
        """The record with the run's own figure."""
        return replace(super().show(identifier), title=f"{identifier} is {self.e2_ms} ms")

    def result(self, handle: str) -> str:
        """The result with the run's own figure."""
        return f"{super().result(handle)}: {self.e2_ms} ms"


def two_runs(folder: Path) -> tuple[HermesChat, dict[str, OwnFigures]]:
    """A chat that opens ``before/run`` and ``after/run``, which have the same name and different figures."""
    runs = {
        name: OwnFigures(e2_ms=ms, request=Request(paths=(Path(name),)))
        for name, ms in (("before", 60.0), ("after", 7.0))
    }
    for name in runs:
        (folder / name / "run").mkdir(parents=True)

    def path(places: tuple[Place, ...]) -> ChatSession:
        return runs[Path(str(places[0])).parent.name]

    ways = replace(openings(runs["before"], given=False), path=path)
    app = HermesChat(lambda: ways, clock=lambda: 0.0)
    app.prompt.cursor_blink = False
    return app, runs


def actions(message: CitedMessage) -> Iterator[str]:
    """What a click on each citation of a message does."""
    for text in message.query(Static):
        spans = text.content.spans if isinstance(text.content, Content) else []
        metas = (span.style.meta for span in spans if isinstance(span.style, Style))
        yield from (meta["@click"] for meta in metas if "@click" in meta)


def title(app: HermesChat) -> str:
    """The title of the screen over the conversation."""
    assert isinstance(app.screen, EvidenceScreen | ResultScreen)
    shown = app.screen.query(".title").first(Static).content
    assert isinstance(shown, Content)
    return shown.plain


async def opened_by(action: str, pilot: Pilot[int]) -> str:
    """The title of what a click opens, which is closed again."""
    app = pilot.app
    assert isinstance(app, HermesChat)
    await app.run_action(action)
    await idle(pilot)
    found = title(app)
    await pilot.press("escape")
    return found


async def test_a_citation_of_an_older_message_opens_in_the_run_that_it_is_about(tmp_path: Path) -> None:
    app, runs = two_runs(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, f"/open {tmp_path / 'before' / 'run'}")
        await typed(pilot, "why?")
        await typed(pilot, f"/open {tmp_path / 'after' / 'run'}")
        assert app.controller.runs.current.name == "run-2"
        older, newer = app.query_one(AnswerMessage), list(app.query(SectionMessage))[-1]
        assert set(actions(older)) == {"app.cite('E2', 'run')", "app.cite('C1', 'run')"}
        assert await opened_by("app.cite('C1', 'run')", pilot) == "@run: C1 is 60.0 ms"
        older.focus()
        await pilot.press("enter")
        await idle(pilot)
        assert title(app) == "@run: E2 is 60.0 ms"
        await pilot.press("escape")
        assert newer.about == "run-2"
        await typed(pilot, "/show E2")
        assert title(app) == "@run-2: E2 is 7.0 ms"
    assert runs["before"].shown == ["C1", "E2"]


async def test_figures_advice_cases_and_results_of_each_diagnosis_open_in_its_run(tmp_path: Path) -> None:
    app, _ = two_runs(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, f"/open {tmp_path / 'before' / 'run'}")
        await typed(pilot, f"/open {tmp_path / 'after' / 'run'}")
        await typed(pilot, "@run")
        for name, ms in (("run", 60.0), ("run-2", 7.0)):
            about = [each for each in app.query(CitedMessage) if each.about == name]
            clicks = {click for message in about for click in actions(message)}
            for identifier in ("E2", "A1", "C1"):
                click = f"app.cite('{identifier}', '{name}')"
                assert click in clicks
                assert await opened_by(click, pilot) == f"@{name}: {identifier} is {ms} ms"
            (line,) = (line for message in about for line in message.query(ToolLine))
            assert line.call.name == f"tool_{ms:.0f}"
            click = f"app.cite('R1', '{name}')"
            assert click in clicks
            assert await opened_by(click, pilot) == f"@{name}: R1: result of tool_{ms:.0f}"


async def test_a_table_opened_before_another_run_keeps_to_its_own(tmp_path: Path) -> None:
    app, _ = two_runs(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, f"/open {tmp_path / 'before' / 'run'}")
        await typed(pilot, "/evidence")
        app.controller.open("run", lambda: OwnFigures(e2_ms=7.0))
        await idle(pilot)
        assert app.controller.runs.current.name == "run-2"
        await pilot.press("down", "enter")
        await idle(pilot)
        assert title(app) == "@run: E2 is 60.0 ms"


async def test_runs_of_one_name_that_are_opened_at_once_get_names_of_their_own(tmp_path: Path) -> None:
    app, runs = two_runs(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        app.prompt.fill(f"/open {tmp_path / 'before' / 'run'}")
        await pilot.press("enter")
        await typed(pilot, f"/open {tmp_path / 'after' / 'run'}")
        assert {name: run.session for name, run in app.controller.runs.open.items()} == {
            "run": runs["before"],
            "run-2": runs["after"],
        }
        assert not runs["before"].closed


async def test_a_conversation_about_two_runs_is_kept_as_one_and_opened_as_it_was(tmp_path: Path) -> None:
    app, runs = two_runs(tmp_path)
    ways = replace(app.openings, store=lambda: SessionStore(tmp_path / "cache"))
    app = HermesChat(lambda: ways, clock=lambda: 0.0)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        for line in (f"/open {tmp_path / 'before' / 'run'}", f"/open {tmp_path / 'after' / 'run'}", "and then?"):
            await typed(pilot, line)
        await typed(pilot, f"/open {tmp_path / 'nothing'}")
        await typed(pilot, "@run why?")
    (row,) = SessionStore(tmp_path / "cache").sessions()
    assert (row.title, row.turns) == ("run, run", 2)
    opened: list[ChatSession] = []

    def again(request: Request) -> ChatSession:
        opened.append(replace(runs[request.paths[0].name], request=request))
        return opened[-1]

    ways = replace(ways, request=again, resume=row.id)
    app = HermesChat(lambda: ways, clock=lambda: 0.0)
    async with app.run_test(size=WIDE) as pilot:
        app.prompt.fill("which rank?")  # typed while the runs are opened: about the one in front
        await pilot.press("enter")
        await idle(pilot)
        assert [run.session for run in app.controller.runs.open.values()] == opened
        assert app.controller.runs.current.name == "run"
        after, before, asked = app.query(AnswerMessage)
        assert (after.about, before.about, asked.about) == ("run-2", "run", "run")
        assert await opened_by(next(actions(after)), pilot) == "@run-2: E2 is 7.0 ms"
        assert await opened_by(next(actions(before)), pilot) == "@run: E2 is 60.0 ms"
        assert "Resumed the session" in said(app)
        assert said(app).index("@run-2 and then?") < said(app).index("@run why?")
        await typed(pilot, f"/sessions {row.id}")
        assert len(app.query(AnswerMessage)) == 3
        assert len(opened) == 2


async def test_what_is_about_no_run_links_to_none(tmp_path: Path) -> None:
    app, _ = two_runs(tmp_path)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, f"/open {tmp_path / 'before' / 'run'}")
        app.conversation.say("one line [E2]")
        await pilot.pause()
        last = app.conversation.query(CitedMessage).last()
        assert list(actions(last)) == []
        assert not last.can_focus
