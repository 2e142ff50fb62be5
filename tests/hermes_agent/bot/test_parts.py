"""Parts of the bot apart from conversations: live messages, budgets, threads, feedback, masks, secrets."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from hermes_agent.bot.access import Budget
from hermes_agent.bot.desk import Desk
from hermes_agent.bot.feedback import About, Feedback, add_feedback, read_feedback
from hermes_agent.bot.live import LiveMessage
from hermes_agent.bot.message import Message, sentence
from hermes_agent.bot.platform import Place
from hermes_agent.bot.threads import Threads
from hermes_agent.demo.data import demo_run
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from tests.hermes_agent.bot.channel import Channel, settings_of, text_of
from tools.errors import InputError


async def test_a_live_message_shows_the_newest_content_and_the_last_one_for_sure() -> None:
    channel = Channel()
    posted = await channel.reply(Place("T1", "C1"), sentence("0"))
    live = LiveMessage(channel, posted, 0.02)
    for number in range(1, 200):
        live.show(sentence(str(number)))
        await asyncio.sleep(0)
    assert channel.updates == 0
    await asyncio.sleep(0.05)
    assert (channel.updates, channel.last) == (1, "199")
    live.show(sentence("late"))
    await live.finish(sentence("end"))
    await asyncio.sleep(0.05)
    assert channel.last == "end"


async def test_a_change_that_fails_is_left_out_and_the_last_one_raises() -> None:
    channel = Channel()
    posted = await channel.reply(Place("T1", "C1"), sentence("0"))
    live = LiveMessage(channel, posted, 0.0)
    channel.broken = True
    live.show(sentence("1"))
    await asyncio.sleep(0.02)
    with pytest.raises(Exception, match="the test refuses"):
        await live.finish(sentence("end"))


def test_a_budget_comes_back_with_time_and_warns_once_for_each_time_it_is_used_up() -> None:
    budget = Budget(2, 600.0)
    assert [budget.take("U1", now) for now in (0.0, 10.0, 20.0)] == [True, True, False]
    assert budget.warn("U1", 20.0) == (
        "You asked 2 times within 10 minutes, the most allowed; ask again in 10 minutes."
    )
    assert budget.warn("U1", 21.0) == ""
    assert budget.take("U2", 21.0)
    assert budget.take("U1", 600.0)
    assert not budget.take("U1", 605.0)
    assert "in a minute" in budget.warn("U1", 605.0)


def test_threads_are_kept_in_private_files_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "slack"
    threads = Threads(folder)
    threads.keep("C1/1", "train-7", "s1")
    threads.keep("C1/1", "train-7")
    known = threads.find("C1/1")
    assert known is not None
    assert known.session == "s1"
    threads.keep("C1/1", "train-8")
    known = threads.find("C1/1")
    assert known is not None
    assert (known.run, known.session) == ("train-8", "")
    assert threads.find("C1/2") is None
    threads.close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert threads.path.stat().st_mode & 0o077 == 0
    for name in (threads.path.name + "-wal", threads.path.name + "-shm"):
        (folder / name).unlink(missing_ok=True)
    threads.path.write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match=r"threads\.sqlite: threads cannot be kept"):
        Threads(folder)
    threads.path.unlink()
    threads.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"threads\.sqlite"):
        Threads(folder)


def line(**changed: object) -> Feedback:
    fields = {"run": "r", "diagnosis": "d", "verdict": "problem", "cause": "straggler", "confidence": 0.7}
    return Feedback.model_validate(
        {**fields, "platform": "slack", "thread": "C1/1", "user": "U1", "right": True, **changed}
    )


def test_the_last_word_of_each_user_counts(tmp_path: Path) -> None:
    path = tmp_path / "data" / "feedback.jsonl"
    for each in (
        line(),
        line(user="U2"),
        line(right=False),
        line(cause="", confidence=None, right=False, actual="slow_link"),
    ):
        add_feedback(path, each)
    first, second = read_feedback(path)
    assert (first.right, first.actual, first.cause, first.confidence) == (False, "slow_link", "straggler", 0.7)
    assert (second.user, second.right) == ("U2", True)
    with path.open("a") as file:
        file.write('{"right": "<script>"}\n')
    with pytest.raises(InputError, match=r"feedback\.jsonl, line 5"):
        read_feedback(path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"feedback cannot be kept"):
        add_feedback(path, line())


def test_what_a_button_carries_fits_into_it(shared_cache: Path, tmp_path: Path) -> None:
    longest = About(run="r" * 64, diagnosis="d" * 16, verdict="inconclusive", cause="c" * 100, mechanism="m" * 100)
    assert len(longest.model_dump_json()) <= 2000


@pytest.mark.parametrize("redact", [None, False])
def test_paths_are_masked_in_messages_and_reports_unless_the_settings_show_them(
    tmp_path: Path, shared_cache: Path, redact: bool | None
) -> None:
    pytest.importorskip("vl_convert", reason="the extra report is not installed")
    threads = Threads(tmp_path / "slack")
    desk = Desk(settings_of(tmp_path, shared_cache, redact=redact), Request((), cache_dir=shared_cache), threads)
    files, note = desk.files("slow", ignore)
    assert not note
    shown = str(demo_run()) in files[1].content.decode()
    assert shown is (redact is False)
    answer = desk.answer("slow", ignore)
    assert str(demo_run()) not in text_of(answer)
    assert "https://" in text_of(answer)  # links of cases stay
    said = desk.said("slow", "no such file: /home/alice/run on 10.1.2.3\x1b[31m")
    assert ("alice" in said) is (redact is False)
    assert "\x1b" not in said
    again = desk.said("slow", "/home/alice/run")
    assert again in said  # one name, one mask
    threads.close()


def test_a_question_about_each_cause_is_understood(tmp_path: Path, shared_cache: Path) -> None:
    threads = Threads(tmp_path / "slack")
    desk = Desk(settings_of(tmp_path, shared_cache), Request((), cache_dir=shared_cache), threads)
    overview = text_of(desk.reply("slow", "C1/1", "why is it slow?", ignore, lambda: False))
    for cause in ("slow_link", "slow_device", "slow_data_reading", "straggler", "memory_pressure"):
        found: Message = desk.reply("slow", f"C1/{cause}", f"could it be {cause}?", ignore, lambda: False)
        assert text_of(found) != overview
    threads.close()


def test_no_token_gets_into_a_log(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("slack_bolt", reason="the extra slack is not installed")
    from hermes_agent.bot.slack.service import WithoutSecrets

    caplog.handler.addFilter(hidden := WithoutSecrets(["signing-very-secret"]))
    try:
        text = "token=%s other xapp-1-A-b wss://x/?ticket=abc-1 Authorization: Bearer xoxe.yz %s"
        logging.getLogger("anything").warning(text, "xoxb-12-ab", "signing-very-secret")
    finally:
        caplog.handler.removeFilter(hidden)
    assert caplog.messages == ["token=*** other *** wss://x/?ticket=*** Authorization: Bearer *** ***"]
