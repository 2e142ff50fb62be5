"""The bot on Slack, against a local Web API and Socket Mode, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("slack_bolt", reason="the extra slack is not installed")
pytest.importorskip("aiohttp", reason="the extra slack is not installed")
pytest.importorskip("vl_convert", reason="the extra report is not installed")

from hermes_agent.bot.access import Access
from hermes_agent.bot.announce import Watched
from hermes_agent.bot.core import MOST_OF_USER, Bot, Limits, Parts
from hermes_agent.bot.desk import Desk
from hermes_agent.bot.platform import Place, PlatformError
from hermes_agent.bot.slack.platform import PATH, RATE_LIMIT_TRIES, Credentials, Listening, SlackPlatform
from hermes_agent.bot.slack.service import serve
from hermes_agent.bot.threads import Threads
from hermes_agent.model.request import Request
from tests.hermes_agent.bot.channel import settings_of
from tests.hermes_agent.bot.slack_server import (
    APP_TOKEN,
    BOT_TOKEN,
    SECRET,
    SlackServer,
    click,
    command,
    mention,
    post,
    slack,
)
from tests.hermes_agent.bot.test_alerts import noticed

ALLOWED = Access.of(["T1"], ["C1"], [], False)
CREDENTIALS = Credentials(BOT_TOKEN, APP_TOKEN, SECRET)


@asynccontextmanager
async def answering(
    server: SlackServer, folder: Path, cache: Path, port: int = 0, limits: Limits | None = None
) -> AsyncIterator[tuple[Bot, list[str]]]:
    """A bot that is connected, over HTTP where there is a port, and what it reports."""
    threads, reports = Threads(folder / "slack"), list[str]()
    desk = Desk(settings_of(folder, cache), Request((), cache_dir=cache), threads)
    platform = SlackPlatform(CREDENTIALS, Listening("127.0.0.1", port) if port else None, server.url)
    limits = limits or Limits(update_s=0.01)
    bot = Bot(Parts(platform, desk, threads, ALLOWED, folder / "feedback.jsonl", limits, reports.append))
    task = asyncio.create_task(bot.run())
    await asyncio.wait_for(platform.ready(), 10)
    try:
        yield bot, reports
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        threads.close()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def text_of(message: dict[str, Any]) -> str:
    """All texts of a message's blocks."""
    texts = [each for block in message["blocks"] for each in (block.get("text"), *block.get("elements", ())) if each]
    return "\n".join(
        each["text"] if isinstance(each["text"], str) else each["text"]["text"] for each in texts if "text" in each
    )


async def test_a_mention_is_answered_in_its_thread_with_picture_report_and_buttons(
    tmp_path: Path, shared_cache: Path
) -> None:
    async with slack() as server, answering(server, tmp_path, shared_cache) as (bot, reports):
        await server.send("events_api", mention("slow", "1.1"), "e1")
        await server.until(lambda: server.called("files.completeUploadExternal"))
        await bot.settled()
        assert server.acknowledged["e1"] < 3.0
        (posted,) = server.called("chat.postMessage")
        assert posted["thread_ts"] == "1.1"
        assert posted["channel"] == "C1"
        message = server.message("170.1")
        assert message["blocks"][0]["text"]["text"] == "slow: problem"
        text = text_of(message)
        assert "55.8 ms [E7]" in text
        assert "*1. Heavy data transforms*" in text
        actions = [
            each["action_id"] for block in message["blocks"] if block["type"] == "actions" for each in block["elements"]
        ]
        assert actions == ["hermes_evidence", "hermes_why_not", "hermes_compare", "hermes_right", "hermes_wrong"]
        assert server.uploads["slow.png"].startswith(b"\x89PNG")
        assert b"<!doctype html>" in server.uploads["slow.html"][:200].lower()
        (completed,) = server.called("files.completeUploadExternal")
        assert completed["thread_ts"] == "1.1"
        assert completed["channel_id"] == "C1"
        said = json.dumps([arguments for _, arguments in server.calls])
        assert not [secret for secret in CREDENTIALS.secrets if secret in said]
        assert not reports


async def test_clicks_and_questions_go_on_in_the_thread_after_a_restart(tmp_path: Path, shared_cache: Path) -> None:
    async with slack() as server:
        async with answering(server, tmp_path, shared_cache) as (bot, _):
            await server.send("events_api", mention("slow how long does a step take?", "1.1"), "e1")
            await server.until(lambda: "108 ms" in json.dumps(server.called("chat.update")))
            await bot.settled()
        async with answering(server, tmp_path, shared_cache) as (bot, _):
            await server.until(lambda: server.connections == 2)
            await server.send("events_api", mention("and its p95?", "1.2", thread="1.1"), "e2")
            await server.until(lambda: len(server.called("chat.update")) >= 2)
            evidence = {"action_id": "hermes_evidence", "type": "button", "value": "slow"}
            await server.send("interactive", click(evidence, "170.1", "1.1"), "e3")
            chosen = {"action_id": "hermes_why_not", "type": "static_select", "selected_option": {"value": "slow_link"}}
            await server.send("interactive", click(chosen, "170.1", "1.1", "ask slow"), "e4")
            await server.until(lambda: "slow link" in json.dumps(server.called("chat.update")))
            await bot.settled()
            assert set(server.acknowledged) == {"e1", "e2", "e3", "e4"}
            assert "*E7* 55.8 ms" in text_of(server.message("170.3"))
            assert all(each["thread_ts"] == "1.1" for each in server.called("chat.postMessage"))


async def test_an_event_that_slack_sends_again_is_answered_once(tmp_path: Path, shared_cache: Path) -> None:
    async with slack() as server, answering(server, tmp_path, shared_cache) as (bot, _):
        await server.send("events_api", mention("runs", "1.1"), "e1")
        await server.send("events_api", mention("runs", "1.1"), "e2", retry_attempt=1, retry_reason="timeout")
        other = mention("runs", "1.1")
        other["event_id"], other["event"]["type"], other["event"]["channel_type"] = "Ev9", "message", "im"
        await server.send("events_api", other, "e3")  # the same message as another kind of event
        own = mention("runs", "1.2")
        own["event"]["bot_id"] = "B7"
        await server.send("events_api", own, "e4")
        await server.until(lambda: len(server.acknowledged) == 4)
        await bot.settled()
        assert len(server.called("chat.postMessage")) == 1


async def test_strangers_are_not_answered(tmp_path: Path, shared_cache: Path) -> None:
    async with slack() as server, answering(server, tmp_path, shared_cache) as (bot, reports):
        await server.send("events_api", mention("runs", "1.1", channel="C2"), "e1")
        await server.send("events_api", mention("runs", "1.2", team="T2"), "e2")
        await server.until(lambda: len(server.acknowledged) == 2)
        await bot.settled()
        assert not server.called("chat.postMessage")
        assert len(reports) == 2


async def test_a_rate_limit_is_waited_for_as_long_as_slack_says(tmp_path: Path, shared_cache: Path) -> None:
    limited = {"chat.postMessage": 2, "chat.update": 1, "files.getUploadURLExternal": 1}
    async with slack() as server, answering(server, tmp_path, shared_cache) as (bot, reports):
        server.rate_limited, server.retry_after_s = dict(limited), 1
        await server.send("events_api", mention("slow", "1.1"), "e1")
        await server.until(lambda: server.called("files.completeUploadExternal"))
        await bot.settled()
        assert server.rate_limited == dict.fromkeys(limited, 0)
        assert server.too_early == []
        assert len(server.called("chat.postMessage")) == 1
        assert "55.8 ms [E7]" in text_of(server.message("170.1"))
        assert set(server.uploads) == {"slow.png", "slow.html"}
        assert not reports


async def test_a_limit_that_never_ends_is_reported_and_the_bot_answers_the_next(
    tmp_path: Path, shared_cache: Path
) -> None:
    async with slack() as server, answering(server, tmp_path, shared_cache) as (bot, reports):
        server.rate_limited = {"chat.postMessage": RATE_LIMIT_TRIES + 1}
        await server.send("events_api", mention("runs", "1.1"), "e1")
        await server.until(lambda: bool(reports))
        assert reports == ["slack: Slack refused a call: ratelimited"]
        await server.send("events_api", mention("runs", "1.2"), "e2")
        await server.until(lambda: server.called("chat.postMessage"))
        await bot.settled()
        (posted,) = server.called("chat.postMessage")
        assert posted["thread_ts"] == "1.2"


async def test_a_flood_is_acknowledged_answered_to_the_limit_and_refused_once(
    tmp_path: Path, shared_cache: Path
) -> None:
    limits = Limits(questions=MOST_OF_USER, update_s=0.01)
    async with slack() as server, answering(server, tmp_path, shared_cache, limits=limits) as (bot, reports):
        for number in range(60):
            await server.send("events_api", mention("runs", f"1.{number}"), f"e{number}")
        await server.send("events_api", mention("runs", "2.1", user="U2"), "other")
        await server.until(lambda: len(server.acknowledged) == 61)
        await bot.settled()
        assert max(server.acknowledged.values()) < 3.0  # Slack sends again what is not acknowledged by then
        posted = {each["thread_ts"]: text_of(each) for each in server.called("chat.postMessage")}
        refused = f"You asked {MOST_OF_USER} times within 60 minutes, the most allowed"
        assert [ts for ts, text in posted.items() if refused in text] == [f"1.{MOST_OF_USER}"]
        answered = sorted(ts for ts, text in posted.items() if "Registered runs" in text)
        assert answered == [*(f"1.{number}" for number in range(MOST_OF_USER)), "2.1"]
        assert len(server.called("chat.postMessage")) == MOST_OF_USER + 2
        assert not reports


async def test_markup_in_a_question_mentions_nobody(tmp_path: Path, shared_cache: Path) -> None:
    text = "slow <!channel> <@U9> &lt;!here&gt; <http://evil.example|click> *b* ```x``` is it slow?"
    async with slack() as server, answering(server, tmp_path, shared_cache) as (bot, _):
        await server.send("events_api", mention(text, "1.1"), "e1")  # the server checks every block for mentions
        await server.send("events_api", mention("<!channel> train-<!here>", "1.2"), "e2")
        await server.send("events_api", mention("x" * 40_000, "1.3"), "e3")
        await server.until(lambda: len(server.called("chat.postMessage")) == 3)
        await bot.settled()
        sent = json.dumps(server.calls)
        for part in ("<!channel", "<@U9", "<!here", "<http://evil"):
            assert part not in sent
        assert "Your message has 40,008 characters" in sent
        for each in (*server.called("chat.postMessage"), *server.called("chat.update")):
            assert each["parse"] == "none"


async def test_http_takes_only_signed_and_recent_requests(tmp_path: Path, shared_cache: Path) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}{PATH}"
    body = json.dumps(mention("runs", "1.1"))
    async with slack() as server, answering(server, tmp_path, shared_cache, port) as (bot, _):
        assert await post(address, body, signature="v0=" + "0" * 64) == 401
        assert await post(address, body, secret="another") == 401
        assert await post(address, body, at=time.time() - 301) == 401
        assert await post(address, body, headers={"X-Slack-Request-Timestamp": "soon"}) == 401
        await bot.settled()
        assert not server.called("chat.postMessage")
        assert await post(address, body) == 200
        again = {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
        assert await post(address, body, headers=again) == 200
        assert await post(address, command("runs", "t1")) == 200
        assert await post(address, command("runs", "t1")) == 200
        assert await post(address, json.dumps({"type": "url_verification", "challenge": "c"})) == 200
        await bot.settled()
        first, second = server.called("chat.postMessage")
        assert first["thread_ts"] == "1.1"
        assert "thread_ts" not in second
        click_body = "payload=" + json.dumps(click({"action_id": "hermes_evidence", "value": "slow"}, "170.1", "1.1"))
        assert await post(address, click_body, signature="v0=0") == 401


async def test_a_call_that_slack_refuses_is_reported_without_the_token(tmp_path: Path, shared_cache: Path) -> None:
    async with slack() as server, answering(server, tmp_path, shared_cache) as (bot, reports):
        server.refused = {"chat.postMessage": "not_in_channel"}
        await server.send("events_api", mention("runs", "1.1"), "e1")
        await server.until(lambda: bool(reports))
        await bot.settled()
        assert reports == ["slack: Slack refused a call: not_in_channel"]
        server.refused = {"auth.test": "invalid_auth"}
        with pytest.raises(PlatformError, match="invalid_auth"):
            await SlackPlatform(CREDENTIALS, None, server.url).check()
        server.refused = {"apps.connections.open": "not_allowed_token_type"}
        with pytest.raises(PlatformError, match="not_allowed_token_type"):
            await SlackPlatform(CREDENTIALS, None, server.url).check()
    with pytest.raises(PlatformError, match="cannot be reached") as failed:
        await SlackPlatform(CREDENTIALS, None, f"http://127.0.0.1:{free_port()}/api/").check()
    assert BOT_TOKEN not in str(failed.value)


async def test_the_service_answers_and_announces_until_it_is_ended(tmp_path: Path, shared_cache: Path) -> None:
    folder = tmp_path / "run"
    (folder / "monitor").mkdir(parents=True)
    async with slack() as server:
        threads, reports = Threads(tmp_path / "slack"), list[str]()
        desk = Desk(settings_of(tmp_path, shared_cache), Request((), cache_dir=shared_cache), threads)
        platform = SlackPlatform(CREDENTIALS, None, server.url)
        parts = Parts(platform, desk, threads, ALLOWED, tmp_path / "feedback.jsonl", report=reports.append)
        task = asyncio.create_task(serve(platform, parts, [Watched("slow", folder, Place("", "C1"))], 0.02))
        await server.send("events_api", mention("runs", "1.1"), "e1")
        await server.until(lambda: server.called("chat.postMessage"))
        noticed(folder)
        await server.until(lambda: len(server.called("chat.postMessage")) == 2)
        assert server.called("chat.postMessage")[1]["blocks"][0]["text"]["text"] == "slow: change"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not reports
        threads.close()
