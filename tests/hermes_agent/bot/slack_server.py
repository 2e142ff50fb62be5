"""Slack as far as the bot needs it, on this machine: the Web API, uploads, Socket Mode, and what it sends to apps."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from aiohttp import ClientSession, WSMsgType, web
from aiohttp.test_utils import TestServer

BOT_TOKEN, APP_TOKEN, SECRET = "xoxb-very-secret", "xapp-very-secret", "signing-very-secret"
LIMITS = {"blocks": 50, "section": 3000, "context": 3000, "header": 150, "actions": 25}


class SlackServer:
    """Answers calls and remembers them; ``rate_limited``: so many calls of a method are refused at first.

    After each refusal ``retry_after_s`` have to pass: calls that come before are in ``too_early``.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.uploads: dict[str, bytes] = {}
        self.acknowledged: dict[str, float] = {}  # envelope ids, with the seconds it took
        self.rate_limited: dict[str, int] = {}
        self.retry_after_s = 0
        self.too_early: list[str] = []
        self.refused: dict[str, str] = {}  # error by method
        self.connections = 0
        self._messages = 0
        self._sent: dict[str, float] = {}
        self._closed_until: dict[str, float] = {}
        self._socket: Any = None
        self._connected = asyncio.Event()
        application = web.Application(client_max_size=1 << 26)
        application.add_routes(
            [
                web.post("/api/{method}", self._call),
                web.get("/api/{method}", self._call),
                web.post("/upload/{name}", self._upload),
                web.get("/socket", self._open_socket),
            ]
        )
        self._server = TestServer(application)

    @property
    def url(self) -> str:
        """The address of the Web API."""
        return str(self._server.make_url("/api/"))

    async def start(self) -> None:
        """Listen."""
        await self._server.start_server()

    async def stop(self) -> None:
        """End the connection and the server."""
        if self._socket is not None:
            await self._socket.close()
        await self._server.close()

    def called(self, method: str) -> list[dict[str, Any]]:
        """The arguments of the calls of a method."""
        return [arguments for name, arguments in self.calls if name == method]

    def message(self, ts: str) -> dict[str, Any]:
        """A message as it is now."""
        changed = [each for each in self.called("chat.update") if each["ts"] == ts]
        return changed[-1] if changed else self.called("chat.postMessage")[int(ts.split(".")[1]) - 1]

    async def send(self, kind: str, payload: dict[str, Any], envelope: str, **more: Any) -> None:  # noqa: ANN401
        """Deliver something over Socket Mode."""
        await self._connected.wait()
        self._sent[envelope] = time.monotonic()
        await self._socket.send_str(
            json.dumps(
                {"type": kind, "envelope_id": envelope, "payload": payload, "accepts_response_payload": False} | more
            )
        )

    async def until(self, condition: Any) -> None:  # noqa: ANN401
        """Wait until something is so."""
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.01)

    async def _call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        if time.monotonic() < self._closed_until.get(method, 0.0):
            self.too_early.append(method)
        if self.rate_limited.get(method, 0):
            self.rate_limited[method] -= 1
            self._closed_until[method] = time.monotonic() + self.retry_after_s
            wait = {"Retry-After": str(self.retry_after_s)}
            return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=wait)
        if method in self.refused:
            return web.json_response({"ok": False, "error": self.refused[method]})
        kind = request.headers.get("Content-Type", "")
        given = dict(await request.json() if "json" in kind else {**request.query, **await request.post()})
        for name in ("blocks", "files"):
            if isinstance(given.get(name), str):
                given[name] = json.loads(given[name])
        self.calls.append((method, given))
        assert request.headers["Authorization"] in (f"Bearer {BOT_TOKEN}", f"Bearer {APP_TOKEN}")
        return web.json_response({"ok": True, **self._answer(method, given)})

    def _answer(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "auth.test":
                return {"user_id": "UBOT", "bot_id": "BBOT", "team_id": "T1"}
            case "apps.connections.open":
                return {"url": str(self._server.make_url("/socket")).replace("http", "ws")}
            case "chat.postMessage":
                check_blocks(given["blocks"])
                self._messages += 1
                return {"ts": f"170.{self._messages}", "channel": given["channel"]}
            case "chat.update":
                check_blocks(given["blocks"])
                return {"ts": given["ts"], "channel": given["channel"]}
            case "files.getUploadURLExternal":
                return {
                    "file_id": f"F-{given['filename']}",
                    "upload_url": str(self._server.make_url(f"/upload/{given['filename']}")),
                }
            case "files.completeUploadExternal":
                return {"files": given["files"]}
        return {}

    async def _upload(self, request: web.Request) -> web.Response:
        self.uploads[request.match_info["name"]] = await request.read()
        return web.Response(text="OK")

    async def _open_socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._socket = socket
        self.connections += 1
        self._connected.set()
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                envelope = json.loads(message.data)["envelope_id"]
                self.acknowledged[envelope] = time.monotonic() - self._sent[envelope]
        return socket


@asynccontextmanager
async def slack() -> AsyncIterator[SlackServer]:
    """A server that listens."""
    server = SlackServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def check_blocks(blocks: list[dict[str, Any]]) -> None:
    """Slack's limits, and that nothing in a text is a mention or a link that the bot did not make."""
    assert len(blocks) <= LIMITS["blocks"]
    identifiers = [each["block_id"] for each in blocks if "block_id" in each]
    assert len(set(identifiers)) == len(identifiers)
    for block in blocks:
        kind = block["type"]
        texts = block.get("elements", []) if kind == "context" else [block[name] for name in ("text",) if name in block]
        for text in texts:
            assert 0 < len(text["text"]) <= LIMITS[kind]
            if text["type"] == "mrkdwn":
                assert text["verbatim"] is True
                for piece in text["text"].split("<")[1:]:
                    assert piece.startswith(("https://", "http://")), piece[:80]
        if kind == "actions":
            assert len(block["block_id"]) <= 255
            assert 0 < len(block["elements"]) <= LIMITS["actions"]
            for element in block["elements"]:
                assert len(element.get("value", "")) <= 2000
                options = element.get("options", [])
                assert len(options) <= 100
                assert all(len(each["text"]["text"]) <= 75 and len(each["value"]) <= 150 for each in options)


def mention(
    text: str, ts: str, *, user: str = "U1", channel: str = "C1", thread: str = "", team: str = "T1"
) -> dict[str, Any]:
    """The payload of a mention of the bot."""
    event = {"type": "app_mention", "user": user, "text": f"<@UBOT> {text}", "ts": ts, "channel": channel, "team": team}
    if thread:
        event["thread_ts"] = thread
    authorized = [{"team_id": "T1", "user_id": "UBOT", "is_bot": True}]
    return {
        "type": "event_callback",
        "team_id": "T1",
        "api_app_id": "A1",
        "event_id": f"Ev{ts}",
        "event": event,
        "authorizations": authorized,
    }


def click(action: dict[str, Any], ts: str, thread: str, block: str = "") -> dict[str, Any]:
    """The payload of a click."""
    return {
        "type": "block_actions",
        "team": {"id": "T1"},
        "user": {"id": "U1", "team_id": "T1"},
        "api_app_id": "A1",
        "trigger_id": f"trigger-{action['action_id']}",
        "container": {"type": "message", "message_ts": ts, "channel_id": "C1", "thread_ts": thread},
        "channel": {"id": "C1"},
        "message": {"ts": ts, "thread_ts": thread},
        "actions": [{"block_id": block, "action_ts": ts, **action}],
    }


async def post(
    address: str,
    body: str,
    *,
    at: float | None = None,
    secret: str = SECRET,
    signature: str = "",
    headers: dict[str, str] | None = None,
) -> int:
    """Send a request as Slack does over HTTP; returns the status."""
    moment = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{moment}:{body}".encode(), hashlib.sha256).hexdigest()
    own = {"X-Slack-Request-Timestamp": moment, "X-Slack-Signature": signature or f"v0={digest}"}
    kind = "application/json" if body.startswith("{") else "application/x-www-form-urlencoded"
    async with (
        ClientSession() as session,
        session.post(address, data=body.encode(), headers={"Content-Type": kind, **own, **(headers or {})}) as answer,
    ):
        return int(answer.status)


def command(text: str, trigger: str) -> str:
    """The body of a slash command."""
    fields = {
        "command": "/hermes",
        "text": text,
        "trigger_id": trigger,
        "team_id": "T1",
        "channel_id": "C1",
        "user_id": "U1",
    }
    return urlencode({**fields, "api_app_id": "A1", "response_url": "http://127.0.0.1:9/none"})
