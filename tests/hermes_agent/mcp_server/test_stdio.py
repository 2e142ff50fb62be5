"""A real client starts the server as a process of its own and talks to it over standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.main import main
from tests.hermes_agent.mcp_server.served import ARGUMENTS, DEMO, text_of

pytest.importorskip("mcp", reason="the extra mcp is not installed")
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

SERVE = ["-m", "hermes_agent.cli.main", "mcp", "--allow", str(DEMO)]


def environment(folder: Path, cache: Path) -> dict[str, str]:
    own = {"HERMES_DX_CACHE_DIR": str(cache), "XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder)}
    return {**own, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


async def test_a_client_of_another_process_calls_every_tool(tmp_path: Path, index_only: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=SERVE, env=environment(tmp_path, index_only), cwd=tmp_path
    )
    messages: list[str] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        messages.append(f"{progress} of {total}: {message}")

    with (tmp_path / "stderr").open("w+") as errors:
        async with stdio_client(server, errors) as streams, ClientSession(*streams) as session:
            assert (await session.initialize()).server_info.name == "hermes-dx"
            assert {each.name for each in (await session.list_tools()).tools} == set(ARGUMENTS)
            for name, arguments in ARGUMENTS.items():
                result = await session.call_tool(name, arguments, progress_callback=heard)
                assert not result.is_error, text_of(result)
        errors.seek(0)
        assert errors.read() == ""
    assert any("of 8.0: load" in each for each in messages)
    assert not (tmp_path / "config").exists()


def test_the_server_ends_with_its_client_in_the_middle_of_a_diagnosis(tmp_path: Path, index_only: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    diagnose = {"name": "diagnose", "arguments": {"run": "slow"}, "_meta": {"progressToken": 7}}
    process = subprocess.Popen(
        [sys.executable, *SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **environment(tmp_path, index_only)},
    )
    assert process.stdin
    assert process.stdout
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": diagnose},
    ]
    process.stdin.write("no message\n" + "".join(f"{json.dumps({'jsonrpc': '2.0', **each})}\n" for each in messages))
    process.stdin.flush()
    while "notifications/progress" not in process.stdout.readline():
        assert process.poll() is None
    rest, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert all(line.startswith('{"jsonrpc"') for line in rest.splitlines())
    assert not (index_only / "diagnoses").exists()


def test_a_folder_that_is_not_there_is_refused_before_anything_is_served(
    commands_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", "--allow", "nowhere"]) == 2
    assert capsys.readouterr().err == "hermes-dx: --allow nowhere: there is no such folder\n"
    assert main(["mcp", "--token-file", "x"]) == 2


def test_without_the_package_one_sentence_says_how_to_install_it(
    commands_cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_agent.cli.commands.mcp.find_spec", lambda name: None)
    assert main(["mcp"]) == 2
    assert "pip install 'hermes-dx[mcp]'" in capsys.readouterr().err
    assert main(["mcp", "--skill"]) == 0
