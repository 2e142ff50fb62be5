"""The bot on the platform of the tests: what it answers, whom, how often, and what it keeps."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest

from hermes_agent.bot.access import Access
from hermes_agent.bot.core import INTERNAL, LONGEST_TEXT, Limits
from hermes_agent.bot.desk import Desk, IsCancelled
from hermes_agent.bot.feedback import read_feedback
from hermes_agent.bot.message import Button, Controls, Menu, Message, sentence
from hermes_agent.model.events import AnswerDelta, Emit, Stage, StageStarted
from tests.hermes_agent.bot.channel import Room, WithoutFiles, settings_of, text_of

pytest.importorskip("vl_convert", reason="the extra report is not installed")


async def test_a_run_is_answered_with_its_diagnosis_its_picture_and_its_report(
    tmp_path: Path, shared_cache: Path
) -> None:
    room = Room(tmp_path, shared_cache)
    text = await room.ask("slow")
    assert list(room.channel.messages) == ["m1"]
    assert text.startswith("slow: problem\nTop bottleneck: heavy data transforms on rank 1 cost 55.8 ms [E7]")
    for said in (
        "saves 55.8 ms",
        "confidence 0.95",
        "2.07x [E23] faster",
        "**Next:** Move heavy transforms",
        "Not assessable",
    ):
        assert said in text
    picture, report = room.channel.files
    assert picture.content.startswith(b"\x89PNG")
    assert picture.alt.startswith("Top bottleneck: heavy data transforms")
    assert report.name == "slow.html"
    assert b"heavy data transforms" in report.content
    assert room.channel.updates >= 1


async def test_a_thread_keeps_its_run_and_its_conversation_over_a_restart(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache)
    await room.ask("slow: how long does a step take?")
    thread = room.channel.threads["m1"]
    assert "108 ms" in room.channel.last
    room.threads.close()

    later = Room(tmp_path, shared_cache, asked=10)
    text = await later.ask("which rank is the slowest?", thread)
    assert "rank" in text.lower()
    text = await later.ask("and how long on rank 1?", thread)
    assert "there is no" not in text.lower()
    known = later.threads.find(f"C1/{thread}")
    assert known is not None
    assert known.run == "slow"
    assert len(later.threads._sessions.open(known.session).turns) == 3


async def test_an_id_keeps_its_meaning_in_a_thread(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache, desk=WithoutFiles)
    await room.ask("slow")
    row = await room.ask("show s1.40", "m1")
    assert "```\nid | rank | step" in row  # its columns under each other
    figure, name = re.findall(r"whole step: (104 ms) \[(E\d+)\]", row)[0]
    room.threads.close()
    later = Room(tmp_path, shared_cache, asked=10)
    await later.ask("how much time goes into communication?", "m1")
    assert f"{name} " in (shown := await later.ask(f"show {name}", "m1"))
    assert figure in shown


async def test_an_event_that_comes_again_is_answered_once_also_after_a_restart(
    tmp_path: Path, shared_cache: Path
) -> None:
    room = Room(tmp_path, shared_cache)
    await room.ask("runs", id="C1:same")
    await room.ask("runs", id="C1:same")
    room.threads.close()
    later = Room(tmp_path, shared_cache)
    await later.ask("runs", id="C1:same")
    assert len(room.channel.messages) == 1
    assert not later.channel.messages


@pytest.mark.parametrize(
    ("access", "answered"),
    [
        (Access.of(["T1"], ["C1"], ["U1"], False), True),
        (Access.of(["T2"], [], [], False), False),
        (Access.of([], ["C2"], [], False), False),
        (Access.of([], [], ["U2"], False), False),
        (Access.of(["T1"], [], ["U2"], False), False),
        (Access(), False),
        (Access(everyone=True), True),
    ],
)
async def test_only_who_is_on_every_list_is_answered(
    tmp_path: Path, shared_cache: Path, access: Access, answered: bool
) -> None:
    room = Room(tmp_path, shared_cache, access)
    await room.ask("runs")
    await room.ask("runs")
    assert bool(room.channel.messages) is answered
    assert len(room.reports) == (0 if answered else 1)


async def test_a_guest_of_another_team_in_a_shared_channel_is_a_stranger(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache, Access.of(["T1"], [], [], False))
    await room.ask("runs", teams=("T1", "T9"))
    assert not room.channel.messages
    assert "secret words" not in await room.ask("secret words", teams=())
    assert not room.channel.messages
    assert "secret" not in " ".join(room.reports)


async def test_a_user_who_asks_too_often_is_told_once(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache, limits=Limits(questions=3, update_s=0.01))
    for _ in range(8):
        await room.ask("runs")
    assert len(room.channel.messages) == 4
    assert "You asked 3 times within 60 minutes" in room.channel.last
    assert "Registered runs" in await room.ask("runs", user="U2")


async def test_many_questions_at_once_are_refused_in_one_sentence_each(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache)
    await asyncio.gather(*(room.ask("runs") for _ in range(6)))
    texts = [text_of(message) for message in room.channel.messages.values()]
    assert sum("Registered runs" in text for text in texts) == 4
    assert sum("still working on earlier questions" in text for text in texts) == 2


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "I say why a training run is slow"),
        ("help", "I say why a training run is slow"),
        ("why is it slow?", "Which run?"),
        ("slwo why?", "There is no registered run `slwo`; did you mean `slow`?"),
        ("diagnose /etc/passwd", "A path in a message is never opened"),
        ("../../slow.json", "A path in a message is never opened"),
        ("file:///etc/passwd", "A path in a message is never opened"),
        ("compare slow", "Name two registered runs"),
        ("compare slow fixde", "did you mean `fixed`?"),
        ("<!channel> *hello* `x`", "Which run?"),
    ],
)
async def test_a_message_without_a_run_gets_one_clear_sentence(
    tmp_path: Path, shared_cache: Path, text: str, answer: str
) -> None:
    room = Room(tmp_path, shared_cache)
    said = await room.ask(text)
    assert answer in said
    assert "<!channel>" not in said
    assert not room.reports


async def test_a_message_that_is_too_long_is_not_read(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache)
    said = await room.ask("slow " * 8000, cut_from=40_000)
    assert said == f"Your message has 40,000 characters, {LONGEST_TEXT:,} are read; ask in fewer words."


async def test_a_registered_run_that_is_gone_is_one_sentence_without_its_path(
    tmp_path: Path, shared_cache: Path
) -> None:
    settings = settings_of(tmp_path, shared_cache, redact=True)
    gone = tmp_path / "gone"
    gone.mkdir()
    from hermes_agent.registered_runs import RegisteredRuns

    RegisteredRuns.load(settings).add("gone", [gone])
    gone.rmdir()
    room = Room(tmp_path, shared_cache, settings=settings)
    said = await room.ask("gone")
    assert "no longer there" in said
    assert str(tmp_path) not in said


async def test_the_buttons_open_evidence_and_why_not_and_compare(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache, desk=WithoutFiles)
    await room.ask("slow")
    ask, judge = (part for part in room.channel.messages["m1"].parts if isinstance(part, Controls))
    assert [item.action for item in (*ask.items, *judge.items)] == ["evidence", "why_not", "compare", "right", "wrong"]
    why_not = ask.items[1]
    assert isinstance(why_not, Menu)
    assert "slow_data_processing" not in [value for _, value in why_not.options]
    assert "**E7** 55.8 ms" in await room.click("m1", "evidence", "slow")
    shown = await room.ask("show E14", "m1")
    assert "Measured by: part_ms(part=data_wait, rank=1)" in shown
    assert "| --- |" in shown
    assert "there is nothing called 'E9999'" in await room.ask("show [E9999]", "m1")
    assert "slow link" in (await room.click("m1", "why_not", "slow_link", ask.about)).lower()
    assert await room.click("m1", "compare", "fixed", ask.about) == room.channel.last
    assert room.channel.last.startswith("fixed → slow\n")
    assert "not known any more" in await room.click("m1", "why_not", "rm -rf", ask.about)
    assert "there is no registered run" in (await room.click("m1", "evidence", "/etc")).lower()


async def test_what_people_say_of_an_answer_is_kept_for_the_evaluation(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache, desk=WithoutFiles)
    await room.ask("slow")
    _, judge = (part for part in room.channel.messages["m1"].parts if isinstance(part, Controls))
    right, wrong = judge.items
    assert isinstance(right, Button)
    assert isinstance(wrong, Button)
    assert "thank you" in await room.click("m1", "right", right.value, judge.about)
    assert "Which cause was it" in await room.click("m1", "wrong", wrong.value, judge.about)
    (menu,) = (part for part in list(room.channel.messages.values())[-1].parts if isinstance(part, Controls))
    assert "slow_link" in await room.click("m1", "actual", "slow_link", menu.about)
    (kept,) = read_feedback(room.feedback)
    assert (kept.right, kept.actual, kept.run) == (False, "slow_link", "slow")
    assert kept.cause == "slow_data_processing"
    assert kept.confidence == 0.95
    assert room.feedback.stat().st_mode & 0o777 == 0o600
    assert "not known any more" in await room.click("m1", "right", '{"run": 3}')


async def test_a_platform_that_refuses_is_reported_and_the_bot_goes_on(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache)
    room.channel.broken = True
    await room.ask("runs")
    assert room.reports == ["test: the test refuses"]
    room.channel.broken = False
    assert "Registered runs" in await room.ask("runs")


class Talking(Desk):
    """A desk whose model answers in two paragraphs, and waits until the first is seen; or that fails."""

    seen = threading.Event()
    broken = False

    def reply(self, run: str, thread: str, question: str, emit: Emit, cancelled: IsCancelled) -> Message:
        if self.broken:
            raise RuntimeError("xoxb-secret of /home/alice")
        emit(StageStarted(Stage.LOAD))
        emit(AnswerDelta("The first paragraph.\n\n"))
        assert self.seen.wait(10)
        emit(AnswerDelta("The second one.\n\n"))
        return sentence("The whole answer.")


async def test_paragraphs_of_an_answer_are_shown_as_they_come(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache, desk=Talking)
    Talking.seen.clear()
    task = asyncio.create_task(room.ask("slow: why?"))
    async with asyncio.timeout(10):
        while "The first paragraph." not in room.channel.last_of("m2"):
            await asyncio.sleep(0.005)
    assert "second" not in room.channel.last
    Talking.seen.set()
    assert await task == "The whole answer."


async def test_a_defect_is_one_sentence_for_the_person_and_one_for_the_operator(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Talking, "broken", True)
    room = Room(tmp_path, shared_cache, desk=Talking)
    said = await room.ask("slow: why?")
    assert said == INTERNAL
    assert "secret" not in "".join(map(text_of, room.channel.messages.values()))
    (report,) = room.reports
    assert report.startswith("an event could not be answered: RuntimeError")
    assert "Registered runs" in await room.ask("runs")
