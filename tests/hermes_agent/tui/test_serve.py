"""The chat in a browser: who may open it. The server itself is an extra and is not needed here."""

from __future__ import annotations

import argparse
import asyncio

import pytest

from hermes_agent.cli.commands.chat import add_arguments, command_of
from hermes_agent.tui.serve import FULL, MOST_CHATS, guard, refusal

TOKEN = "a-token"


@pytest.mark.parametrize(
    ("host", "origin", "given", "passes"),
    [
        ("127.0.0.1:8137", None, TOKEN, True),
        ("localhost:8137", "http://localhost:8137", TOKEN, True),
        ("127.0.0.1:8137", "http://127.0.0.1:8137", "", False),
        ("127.0.0.1:8137", "http://127.0.0.1:8137", "another", False),
        ("127.0.0.1:8137", "https://example.org", TOKEN, False),
        ("127.0.0.1:8137", "null", TOKEN, False),
        ("rebound.example.org:8137", None, TOKEN, False),
        ("127.0.0.1:9999", None, TOKEN, False),
        ("127.0.0.1:8137", None, "tökén", False),
    ],
)
def test_only_the_browser_with_the_token_on_this_machine_passes(
    host: str, origin: str | None, given: str, passes: bool
) -> None:
    assert (refusal(host, origin, f"/{given}/", 8137, TOKEN) == "") is passes


@pytest.mark.parametrize("path", ["/", "/ws", f"/x/{TOKEN}/", f"/{TOKEN}x/ws", f"//{TOKEN}/"])
def test_no_path_without_the_token_passes(path: str) -> None:
    assert "holds the token" in refusal("127.0.0.1:8137", None, path, 8137, TOKEN)


async def test_a_page_too_many_is_refused_in_a_sentence_and_nothing_sets_a_cookie() -> None:
    pytest.importorskip("aiohttp", reason="the extra serve is not installed")
    from aiohttp import web
    from aiohttp.test_utils import make_mocked_request

    closed = asyncio.Event()

    async def chat(request: web.Request) -> web.StreamResponse:
        await closed.wait()
        return web.Response()

    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text="a page")

    def asked(path: str) -> web.Request:
        return make_mocked_request("GET", f"/{TOKEN}/{path}", headers={"Host": "127.0.0.1:8137"})

    checked = guard(8137, TOKEN)
    chats = [asyncio.ensure_future(checked(asked("ws"), chat)) for _ in range(MOST_CHATS)]
    await asyncio.sleep(0)
    refused = await checked(asked(""), page)
    assert (refused.status, refused.text) == (503, FULL)
    assert (await checked(asked("ws"), chat)).status == 503
    closed.set()
    await asyncio.gather(*chats)
    again = await checked(asked(""), page)
    assert (again.status, again.text) == (200, "a page")
    assert not again.cookies
    assert "default-src 'self'" in again.headers["Content-Security-Policy"]


def test_the_served_command_is_the_chat_with_the_same_arguments() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(["a run", "--ranks", "0,3", "--steps", "5:9", "--no-llm", "--serve"])
    assert args.serve == 8137
    assert command_of(args)[3:] == ["chat", "a run", "--steps", "5:9", "--ranks", "0,3", "--no-llm"]


@pytest.mark.parametrize("port", ["0", "80", "70000", "0.0.0.0:8137", "x"])
def test_no_other_address_and_no_privileged_port_can_be_given(port: str) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--serve", port])
