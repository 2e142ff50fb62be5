"""HTTP on this machine: a token, the server's own name, and several clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.hermes_agent.mcp_server.served import DEMO, served
from tools.errors import UsageError

pytest.importorskip("mcp", reason="the extra mcp is not installed")
import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from hermes_agent.mcp_server.server import server_of
from hermes_agent.mcp_server.transport import bound_socket, http_server, refusal, token_of

TOKEN = "a-token-of-more-than-twenty-characters"
START = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
HEADERS = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}"}


@asynccontextmanager
async def serving(cache: Path) -> AsyncIterator[str]:
    """The address of a server that runs in a task."""
    runs, listening = served(cache, DEMO), bound_socket(0)
    server = http_server(server_of(runs), listening, TOKEN)
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve, [listening])
        while not server.started:
            await anyio.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        server.should_exit = True
    runs.close()


async def test_only_requests_with_the_token_to_this_machine_from_no_page_pass(shared_cache: Path) -> None:
    async with serving(shared_cache) as address, httpx2.AsyncClient() as browser:
        cases = [
            ({"Authorization": "Bearer wrong"}, 401),
            ({"Authorization": ""}, 401),
            ({"Host": "attacker.example"}, 421),
            ({"Origin": "http://attacker.example"}, 403),
            ({"Origin": "null"}, 403),
            ({}, 200),
        ]
        for changed, status in cases:
            answer = await browser.post(address, json=START, headers={**HEADERS, **changed})
            assert answer.status_code == status, changed
        assert (await browser.get(address.replace("/mcp", "/"), headers=HEADERS)).status_code == 404


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_two_clients_are_served_at_once(shared_cache: Path, mode: str) -> None:
    found: dict[str, float] = {}

    async def work(address: str, run: str) -> None:
        async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
            transport = streamable_http_client(address, http_client=http)
            async with Client(transport, mode=mode) as client:
                record = (await client.call_tool("diagnose", {"run": run})).structured_content
                found[run] = record["step_time_ms"]["mean"]

    async with serving(shared_cache) as address, anyio.create_task_group() as group:
        group.start_soon(work, address, "slow")
        group.start_soon(work, address, "fixed")
    assert found["slow"] > 1.5 * found["fixed"]


def test_a_request_is_refused_for_its_host_before_its_token_is_looked_at() -> None:
    good = {"host": "localhost:8138", "authorization": f"Bearer {TOKEN}"}
    assert refusal(good, 8138, TOKEN) is None
    assert refusal({**good, "authorization": f"bearer {TOKEN}"}, 8138, TOKEN) is None
    assert refusal({**good, "origin": "http://localhost:8138"}, 8138, TOKEN) is None
    for name, value, status in [
        ("host", "localhost:8139", 421),
        ("host", "localhost", 421),
        ("origin", "https://localhost:8138", 403),
        ("authorization", TOKEN, 401),
        ("authorization", f"Basic Bearer {TOKEN}", 401),
        ("authorization", f"Bearer {TOKEN}x", 401),
        ("authorization", "Bearer é", 401),
    ]:
        found = refusal({**good, name: value}, 8138, TOKEN)
        assert found is not None
        assert found[0] == status


def test_the_token_is_made_once_and_kept_private(tmp_path: Path) -> None:
    path = tmp_path / "config" / "mcp-token"
    token = token_of(path)
    assert len(token) >= 40
    assert token_of(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        token_of(path)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(UsageError, match="20 characters"):
        token_of(path)


def test_a_port_that_is_taken_is_named() -> None:
    with bound_socket(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} cannot be used"):
            bound_socket(port)
