"""What the chat does when a person types, clicks and interrupts; driven without a terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from textual.app import App
from textual.widgets import DataTable, Static

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import AnswerDelta, Emit, HypothesisJudged, Notice, ToolCalled
from hermes_agent.model.turn import ToolCallRecord
from hermes_agent.tui.app import HermesChat
from hermes_agent.tui.commands import COMMANDS
from hermes_agent.tui.conversation import PictureMessage
from hermes_agent.tui.messages import AnswerMessage, CitedMessage, SectionMessage, ToolMessage
from hermes_agent.tui.screens import EvidenceScreen, HelpScreen, ResultScreen, TableScreen
from hermes_agent.tui.work import Cancelled, Ended, Job, Openings
from tests.hermes_agent.tui.driving import SMALL, WIDE, chat, idle, said, typed, until
from tests.hermes_agent.tui.fake_session import HOSTILE, WAIT_S, FakeSession, hypotheses, openings
from tools.errors import ExitCode, UsageError

CLEANED = HOSTILE.replace("\x1b[31m", "")


async def test_a_question_is_asked_of_the_session_and_its_answer_shown() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, "which rank is slow?")
        answer = app.query_one(AnswerMessage)
        assert session.asked == ["which rank is slow?"]
        assert answer.cited == ("E2", "C1", "E2")
        assert "Rank 1 loses 60 ms [E2]" in said(app)
        assert "answered from templates" in said(app)


async def test_commands_become_questions_the_session_understands() -> None:
    session = FakeSession()
    async with chat(session).run_test(size=WIDE) as pilot:
        await idle(pilot)
        for line in ("/why-not garbage_collection", "/whatif slow_data_processing", "/cases loader stalls"):
            await typed(pilot, line)
    assert session.asked == [
        "why not garbage_collection?",
        "what if I fix slow_data_processing?",
        "similar cases: loader stalls",
    ]


async def test_enter_on_a_focused_message_opens_the_chosen_citation() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await pilot.press("tab", "right", "right", "enter")
        await idle(pilot)
        assert session.shown == ["E3"]
        assert isinstance(app.screen, EvidenceScreen)
        await pilot.press("escape")
        assert not isinstance(app.screen, EvidenceScreen)


async def test_after_a_screen_is_closed_what_is_typed_goes_to_the_input() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await pilot.press("tab", "enter")
        await idle(pilot)
        await pilot.press("escape")
        await pilot.press(*"/show E3", "enter")
        await idle(pilot)
        assert session.shown == ["E2", "E3"]


async def test_typing_while_a_message_is_focused_goes_to_the_input() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        app.prompt.fill("why ")
        app.prompt.cursor_position = len(app.prompt.value)
        await pilot.press("tab", "right")
        assert isinstance(app.focused, CitedMessage)
        await pilot.press(*"not gc?", "enter")
        await idle(pilot)
        assert session.asked == ["why not gc?"]
        assert app.prompt.has_focus


async def test_letters_typed_into_a_screen_do_not_reach_the_input() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await pilot.press("tab")
        await typed(pilot, "/evidence")
        await pilot.press("x", "y")
        assert app.prompt.value == ""
        assert isinstance(app.screen, TableScreen)


async def test_text_typed_into_a_screen_is_answered_with_the_way_back() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        await typed(pilot, "/evidence")
        await pilot.press("w")
        assert "Esc goes back" in app.export_screenshot().replace("&#160;", " ")


async def test_a_question_typed_while_a_run_is_opened_is_asked_about_that_run() -> None:
    before, after = FakeSession(), FakeSession(hold=True)
    app = chat(before)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        app.controller.open("the other run", lambda: after)
        await until(after.half_way.is_set, pilot)
        app.prompt.fill("which rank is slow?")
        await pilot.press("enter")
        await pilot.pause()
        assert "Diagnosing the other run comes first" in said(app)
        after.hold = False
        after.go.set()
        await idle(pilot)
    assert (before.asked, after.asked) == ([], ["which rank is slow?"])


async def test_a_question_is_not_asked_of_another_run_where_the_opening_is_stopped() -> None:
    before, after = FakeSession(), FakeSession(hold=True)
    app = chat(before)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        app.controller.open("the other run", lambda: after)
        await until(after.half_way.is_set, pilot)
        app.prompt.fill("which rank is slow?")
        await pilot.press("enter", "escape")
        await idle(pilot)
        assert "Not done, because the run was not opened: which rank is slow?" in said(app)
    assert (before.asked, after.asked) == ([], [])


async def test_a_command_typed_while_a_run_is_opened_is_about_that_run(tmp_path: Path) -> None:
    before, after = FakeSession(), FakeSession(hold=True)
    app = chat(before)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        app.controller.open("the other run", lambda: after)
        await until(after.half_way.is_set, pilot)
        for line in ("/show E2", f"/report {tmp_path / 'report.json'}", "/help"):
            app.prompt.fill(line)
            await pilot.press("enter")
            await pilot.pause()
        assert isinstance(app.screen, HelpScreen)  # about no run: it does not wait
        await pilot.press("escape")
        assert said(app).count("Diagnosing the other run comes first; this is then about that run.") == 2
        assert list(tmp_path.iterdir()) == []
        after.hold = False
        after.go.set()
        await idle(pilot)
        assert (before.shown, after.shown) == ([], ["E2"])
        assert (tmp_path / "report.json").exists()


async def test_checks_are_counted_in_the_conversation_and_told_in_full_on_demand() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        assert "Checks: 1 found something, 1 clean, 1 cannot answer" in said(app)
        assert "Cannot answer: communication (transfer)." in said(app)
        assert "record_shapes=True" not in said(app)
        await typed(pilot, "/checks")
        table = app.screen.query_one(DataTable)
        rows = [[str(cell) for cell in table.get_row_at(row)] for row in range(table.row_count)]
        assert [row[0] for row in rows] == ["io.data_loader", "communication.transfer", "parallel.step_time"]
        assert rows[1][1:] == ["cannot answer", "no sizes were recorded. Needs record_shapes=True."]


async def test_clicking_a_citation_opens_it() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        sentence = app.query(SectionMessage).first().query(".sentence").last(Static)
        column = str(sentence.visual).index("[E3]") + 1
        await pilot.click(sentence, offset=(column, 0))
        await idle(pilot)
        assert session.shown == ["E3"]
        assert isinstance(app.screen, EvidenceScreen)


async def test_escape_stops_a_running_diagnosis_and_the_chat_goes_on() -> None:
    session = FakeSession(hold=True)
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await until(session.half_way.is_set, pilot)
        await pilot.press("escape")
        await idle(pilot)
        assert "Interrupted: diagnosing run." in said(app)
        assert session.closed
        session.hold = False
        await typed(pilot, "/demo")
        assert "The first cause is slow data processing" in said(app)


async def test_the_panel_goes_back_to_the_run_under_discussion_when_another_is_interrupted() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        before = str(app.query_one("#hierarchy", expect_type=Static).visual)
        session.hold = True
        session.half_way.clear()
        app.prompt.fill("/demo")
        await pilot.press("enter")
        await until(session.half_way.is_set, pilot)
        await until(lambda: "▸ families" in str(app.query_one("#hierarchy", expect_type=Static).visual), pilot)
        await pilot.press("escape")
        await idle(pilot)
        assert str(app.query_one("#hierarchy", expect_type=Static).visual) == before
        assert app.controller.diagnosis.verdict == "problem"


async def test_escape_stops_an_answer_and_forgets_the_questions_behind_it() -> None:
    session = FakeSession(streams=(Notice("asking the model"), AnswerDelta("Rank 1 waits 60 ms [E2].\n\n")))
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        session.hold = True
        session.half_way.clear()
        app.prompt.fill("first?")
        await pilot.press("enter")
        app.prompt.fill("second?")
        await pilot.press("enter")
        await until(session.half_way.is_set, pilot)
        await until(lambda: "asking the model" in said(app), pilot)
        assert "Rank 1 waits 60 ms [E2]." in said(app)
        await pilot.press("escape")
        await idle(pilot)
        assert session.asked == ["first?"]
        assert said(app).count("interrupted") == 2


async def test_a_diagnosis_in_the_words_of_a_model_names_its_writer() -> None:
    app = chat(FakeSession(by_model=True))
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        assert "Written by small-model, checked against the evidence." in said(app)


async def test_up_and_down_walk_through_what_was_typed_and_keep_the_draft() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, "first?")
        await typed(pilot, "second?")
        app.prompt.fill("draft")
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await pilot.press(key)
            seen.append(app.prompt.value)
        assert seen == ["second?", "first?", "first?", "second?", "draft", "draft"]


async def test_tab_completes_a_command_and_leaves_only_an_input_without_one() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        for line, completed in (
            ("/wha", "/whatif "),
            ("/open", "/open "),
            ("/whatif s", "/whatif slow_data_processing"),
            ("/why-not garb", "/why-not garbage_collection"),
            ("/theme nor", "/theme nord"),
            ("/show A", "/show A1"),
            ("/zzz", "/zzz"),
        ):
            app.prompt.fill(line)
            await pilot.press("tab")
            assert app.prompt.value == completed
            assert app.prompt.has_focus
        app.prompt.fill("/co")
        await pilot.press("tab")
        assert app.status.hint == "/compare  /confirm  /copy"
        app.prompt.fill("")
        await pilot.press("tab")
        assert isinstance(app.focused, CitedMessage)


async def test_tab_completes_the_path_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my run", "other", ".hidden"):
        (tmp_path / "traces" / name).mkdir(parents=True)
    (tmp_path / "traces" / "my run" / "rank0.json").touch()
    app = chat(FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        app.prompt.fill("/open other.json tr")
        seen = []
        for more in ("", "m", ""):
            app.prompt.fill(app.prompt.value + more)
            await pilot.press("tab")
            seen.append(app.prompt.value.removeprefix("/open other.json "))
        assert seen == ["traces/", "traces/my\\ run/", "traces/my\\ run/rank0.json"]
        app.prompt.fill("/open traces/")
        await pilot.press("tab")
        assert app.status.hint == "my run  other"
        assert app.prompt.has_focus


async def test_report_writes_the_form_its_name_asks_for_and_never_replaces_silently(tmp_path: Path) -> None:
    app = chat(FakeSession())
    target = tmp_path / "answer.json"
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, f"/report {target}")
        assert json.loads(target.read_text())["verdict"] == "problem"
        target.write_text("mine")
        await typed(pilot, f"/report {target}")
        assert target.read_text() == "mine"
        assert "exists and was not replaced" in said(app)
        await typed(pilot, f"/report --overwrite {target}")
        assert json.loads(target.read_text())["verdict"] == "problem"
        await typed(pilot, "/report answer.html")
        assert "hermes-dx diagnose RUN --html FILE" in said(app)


async def test_copy_takes_the_last_answer_and_before_any_the_diagnosis() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, "/copy")
        assert app.clipboard.startswith("# Problem")
        assert "Sent the diagnosis to the terminal's clipboard; if pasting gives nothing" in said(app)
        await typed(pilot, "which rank?")
        await typed(pilot, "/copy")
        assert app.clipboard.startswith("Rank 1 loses **60 ms** [E2]")


async def test_text_of_the_run_is_drawn_as_it_is_and_never_as_markup_or_escape_codes() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, f"what is {HOSTILE}?")
        assert f"what is {CLEANED}?" in said(app)
        assert f"one span is called {CLEANED}" in said(app)
        assert "to [bold red]x[/] red, see" in said(app)
        await typed(pilot, "/show E1")
        table = app.screen.query_one(DataTable)
        assert [str(cell) for cell in table.get_row_at(0)] == [CLEANED, "60.0"]
        drawn = app.export_screenshot()
        assert "\x1b" not in drawn
        assert "[bold&#160;red]x[/]&#160;red" in drawn


async def test_an_unknown_id_and_an_unreadable_path_are_told_in_the_conversation() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, "/show E99")
        await typed(pilot, "/open no-such-file.json")
        errors = [str(message.query("Static").first(Static).visual) for message in app.query(".error")]
    assert errors == [
        "there is nothing called 'E99' in this diagnosis; there is evidence E1 to E4",
        "no-such-file.json: there is no such file or folder; check the path.",
    ]


async def test_an_error_of_ours_is_shown_and_the_chat_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(FakeSession):
        def show(self, identifier: str) -> object:  # type: ignore[override]
            raise ZeroDivisionError(identifier)

    app = chat(Broken())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, "/show E1")
        assert "Internal error, ZeroDivisionError: E1" in said(app)
        await typed(pilot, "still there?")
        assert "Rank 1 loses 60 ms [E2]" in said(app)


async def test_a_url_is_opened_as_one_and_shown_without_its_password() -> None:
    app = chat(FakeSession(), given=False)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, "/open ftp://user:secret@host/run")
        assert "Reading and diagnosing ftp://host/run" in said(app)
        assert app.controller.diagnosis.verdict == "problem"
        assert not app.query(".error")


@pytest.mark.parametrize("command", ["/steps", "/ranks"])
async def test_a_table_that_only_a_trace_fills_is_not_opened_empty(command: str) -> None:
    class Untraced(FakeSession):
        def diagnose(self, emit: Emit, cancelled: Cancelled) -> Diagnosis:
            return super().diagnose(emit, cancelled).model_copy(update={"breakdown": []})

    app = chat(Untraced())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, command)
        assert not isinstance(app.screen, TableScreen)
        errors = [str(message.query("Static").first(Static).visual) for message in app.query(".error")]
    assert len(errors) == 1
    assert errors[0].startswith("No trace was read, so the parts of a step are unknown")


async def test_nothing_can_be_asked_before_a_run_is_open() -> None:
    app = chat(FakeSession(), given=False)
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        for line in ("why?", "/causes", "/report x.md", "/show E1"):
            await typed(pilot, line)
        assert len(app.query(".error")) == 4


async def test_settings_that_cannot_be_used_end_the_chat_with_their_sentence() -> None:
    def load() -> Openings:
        raise UsageError("hermes-dx.toml: llm.modle is no setting; there is llm.model.")

    app = HermesChat(load, greets=True)
    async with app.run_test() as pilot:
        await until(lambda: app.failure is not None, pilot)
    assert app.return_value == ExitCode.USAGE
    assert str(app.failure).startswith("hermes-dx.toml")


async def test_a_line_typed_before_the_settings_are_read_waits_for_them() -> None:
    session, go = FakeSession(), Event()

    def load() -> Openings:
        go.wait(WAIT_S)
        return replace(openings(session), notes=("hermes-dx.toml: cache_dir is not taken from a project.",))

    app = HermesChat(load)
    async with app.run_test(size=WIDE) as pilot:
        app.prompt.fill("which rank is slow?")
        await pilot.press("enter")
        assert session.asked == []
        go.set()
        await idle(pilot)
        assert session.asked == ["which rank is slow?"]
        assert "cache_dir is not taken from a project" in said(app)


async def test_the_side_panel_is_there_from_100_columns_on() -> None:
    for columns, shown in ((99, False), (100, True)):
        app = chat(FakeSession())
        async with app.run_test(size=(columns, 24)) as pilot:
            await idle(pilot)
            assert app.panel.display is shown, columns


async def test_ctrl_c_quits_only_when_pressed_twice() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await pilot.press("ctrl+c")
        assert app.status.hint == "Ctrl+C again quits"
        assert app.is_running
        await pilot.press("ctrl+c")
        await until(lambda: app.return_value is not None, pilot)
    assert app.return_value == 0


async def test_a_stored_diagnosis_fills_the_panel_though_no_check_was_told() -> None:
    app = chat(FakeSession(cached=True))
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        drawn = str(app.query_one("#hierarchy", expect_type=Static).visual)
        assert "Hierarchy (from the cache)" in drawn
        assert "▲ data loader" in drawn


async def test_every_command_is_in_the_palette_and_in_the_help() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        palette = [each.title for each in app.get_system_commands(app.screen)]
        assert palette == [command.usage for command in COMMANDS]
        await typed(pilot, "/help")
        assert isinstance(app.screen, HelpScreen)
        shown = str(app.screen.query_one(".whole Static", expect_type=Static).visual)
        assert all(f"{command.usage} " in shown and command.help in shown for command in COMMANDS)


async def test_enter_on_a_row_of_the_evidence_opens_it() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        await typed(pilot, "/evidence")
        assert isinstance(app.screen, TableScreen)
        await pilot.press("down", "enter")
        await idle(pilot)
        assert session.shown == ["E2"]


async def test_leaving_while_work_runs_stops_the_work() -> None:
    session = FakeSession(hold=True)
    app: App[int] = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await until(session.half_way.is_set, pilot)
        await pilot.press("ctrl+q")
    assert isinstance(app, HermesChat)
    assert session.closed


@pytest.mark.parametrize("size", [SMALL, WIDE])
async def test_names_and_keys_of_the_help_fit_and_the_rest_is_below(size: tuple[int, int]) -> None:
    app = chat(FakeSession(), given=False)
    async with app.run_test(size=size) as pilot:
        await idle(pilot)
        await typed(pilot, "/help")
        shown = app.export_screenshot().replace("&#160;", " ")
        assert "twice: quit" in shown
        assert all(f"/{command.name}" in shown for command in COMMANDS)
        await pilot.press("end")
        await pilot.pause(0.5)
        assert "leave the chat" in app.export_screenshot().replace("&#160;", " ")


async def test_the_list_of_commands_opens_on_a_slash_and_enter_chooses() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        await pilot.press("/")
        assert app.suggestions.display
        await pilot.press("e")
        shown = str(app.suggestions.get_option_at_index(0).prompt)
        assert shown.startswith("/evidence")
        await pilot.press("escape")
        assert not app.suggestions.display
        assert app.prompt.value == "/e"
        await pilot.press("v", "enter")
        assert app.prompt.value == "/evidence"
        await pilot.press("enter")
        await idle(pilot)
        assert isinstance(app.screen, TableScreen)


async def test_arrows_choose_an_argument_and_a_line_from_the_history_opens_no_list() -> None:
    session = FakeSession()
    app = chat(session)
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        await pilot.press(*"/wh", "enter", *"sl", "down", "enter")
        assert app.prompt.value == "/why-not slow_data_reading"
        await pilot.press("enter")
        await idle(pilot)
        assert session.asked == ["why not slow_data_reading?"]
        await pilot.press("up")
        assert app.prompt.value == "/why-not slow_data_reading"
        assert not app.suggestions.display


async def test_questions_and_commands_are_addressed_to_open_runs_by_name() -> None:
    first, second = FakeSession(), FakeSession()
    app = chat(first)
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        app.controller.open("other run", lambda: second)
        await idle(pilot)
        assert list(app.controller.runs.open) == ["run", "other-run"]
        await typed(pilot, "why?")
        await typed(pilot, "@run which rank?")
        assert (first.asked, second.asked) == (["which rank?"], ["why?"])
        await typed(pilot, "@run")
        await typed(pilot, "and then?")
        assert first.asked[-1] == "and then?"
        assert app.status.run_title == "@run"
        await typed(pilot, "@nobody why?")
        assert "No open run is called @nobody; there is @run, @other-run" in said(app)
        await typed(pilot, "/runs")
        assert "> @run: run, problem" in said(app)
        await pilot.press("@", "o")
        assert str(app.suggestions.get_option_at_index(0).prompt).strip() == "@other-run"
    assert first.closed
    assert second.closed


async def test_hypotheses_are_in_the_panel_and_tool_calls_are_lines_that_open() -> None:
    call = ToolCallRecord(
        handle="R1", name="find_events", arguments={"rank": 3, "name": HOSTILE}, seconds=0.42, size=31
    )
    failed = ToolCallRecord(handle="R2", name="measure", seconds=0.0, size=9, by="model", error="there is no metric x")

    class Investigating(FakeSession):
        def diagnose(self, emit: Emit, cancelled: Cancelled) -> Diagnosis:
            emit(ToolCalled(call))
            emit(ToolCalled(failed))
            for each in hypotheses():
                emit(HypothesisJudged(each.model_copy(update={"status": "open"})))
                emit(HypothesisJudged(each))
            return super().diagnose(emit, cancelled).model_copy(update={"hypotheses": hypotheses()})

    app = chat(Investigating())
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        panel = str(app.query_one("#considered", expect_type=Static).visual)
        assert "▲ H1 supported too few data loader workers, rank 1" in " ".join(panel.split())
        assert "✗ H2 refuted" in panel
        assert "? H3 open" in panel
        assert all(line.startswith(("  ", "Hypotheses", "▲ ", "✗ ", "? ")) for line in panel.splitlines())
        assert f'R1 find_events(rank=3, name="{CLEANED}"): 31 characters, 0.4 s' in said(app)
        assert "R2 measure() by the model: failed after 0.0 s\n  there is no metric x" in said(app)
        message = app.query_one(ToolMessage)
        assert message.cited == ("R1", "R2")
        message.focus()
        await pilot.press("enter")
        await idle(pilot)
        assert isinstance(app.screen, ResultScreen)
        title = app.screen.query_one(".title", expect_type=Static)
        assert str(title.visual) == "R1: result of find_events"
        assert f"whole path per step: 100 ms, with {CLEANED}" in str(
            app.screen.query_one(".whole Static", expect_type=Static).visual
        )
        await pilot.press("escape")
        await typed(pilot, "/show H1")
        assert "Waiting for data is 60 ms of the step of rank 1" in said(app)


async def test_a_question_for_a_picture_is_answered_and_drawn() -> None:
    app = chat(FakeSession())
    async with app.run_test(size=SMALL) as pilot:
        await idle(pilot)
        await typed(pilot, "show me the critical path")
        message = app.query_one(PictureMessage)
        assert message.cited == ("E1", "E2", "E4")
        await typed(pilot, "/timeline")
        assert "the file is gone" in said(app)
        await typed(pilot, "/heatmap nonsense")
        assert "There is no heatmap of 'nonsense'; there are own, wall" in said(app)


async def test_leaving_while_a_run_is_opened_ends_without_an_error() -> None:
    session = FakeSession(hold=True)
    app = chat(session)
    async with app.run_test(size=WIDE) as pilot:
        await until(session.half_way.is_set, pilot)
        app.prompt.fill("/quit")
        await pilot.press("enter")
        await until(lambda: not app.is_running, pilot)
    assert app.return_code == 0
    assert app.return_value == 0


async def test_a_result_that_comes_after_leaving_is_not_shown() -> None:
    app = chat(FakeSession(), given=False)
    shown: list[str] = []
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot)
        app.controller.leave()
        await app.controller.ended(
            Ended(Job("late", lambda _, __: None, lambda _: None), take=lambda: shown.append(""))
        )
        await app.controller.ended(Ended(Job("late", lambda _, __: None, lambda _: None)))
        assert shown == []
        assert "Interrupted" not in said(app)
