"""Serve runs to editors and agents over the Model Context Protocol."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import number_between, request_of_service, settings
from hermes_agent.cli.terminal import note
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hermes_agent.mcp_server.open_runs import OpenRuns

PORT = 8138
TOKEN_FILE = "mcp-token"
NEEDED = "hermes-dx mcp needs the package mcp; install it with: pip install 'hermes-dx[mcp]'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``mcp``."""
    text = "clients may open runs in this folder by path, in addition to the registered runs; may be repeated"
    parser.add_argument("--allow", action="append", default=[], type=Path, metavar="FOLDER", help=text)
    text = f"serve HTTP on this machine (127.0.0.1) instead of standard input and output; default port {PORT}"
    parser.add_argument("--http", nargs="?", const=PORT, type=number_between(1024, 65535), metavar="PORT", help=text)
    text = f"file with the token of --http, made if it is not there; default: {TOKEN_FILE} next to the settings"
    parser.add_argument("--token-file", type=Path, metavar="FILE", help=text)
    text = "print an agent skill that needs no server (SKILL.md), and exit"
    parser.add_argument("--skill", action="store_true", help=text)


def run(args: argparse.Namespace) -> int:
    """Serve until the client goes away, over HTTP until interrupted."""
    if args.skill:
        print(skill(), end="")
        return ExitCode.OK
    if args.token_file and args.http is None:
        raise UsageError("--token-file belongs to --http")
    if find_spec("mcp") is None:
        raise UsageError(NEEDED)
    runs = _runs(args.allow)
    from hermes_agent.mcp_server import transport
    from hermes_agent.mcp_server.server import server_of

    server = server_of(runs)
    if args.http is None:
        transport.serve_stdio(server)
    else:
        path = args.token_file or _user_folder() / TOKEN_FILE
        token, listening = transport.token_of(path), transport.bound_socket(args.http)
        address = f"http://{transport.HOST}:{args.http}{transport.PATH}"
        note(f"serving MCP at {address} (this machine only), token in {path}; Ctrl+C ends it")
        transport.serve_http(server, listening, token)
    _leave(runs)
    return ExitCode.OK


def skill() -> str:
    """The text of the skill."""
    from importlib.resources import files

    return (files("hermes_agent") / "mcp_server" / "skills" / "hermes-dx" / "SKILL.md").read_text(encoding="utf-8")


def _runs(allowed: list[Path]) -> OpenRuns:
    from hermes_agent.mcp_server.allowed import AllowedFolders
    from hermes_agent.mcp_server.open_runs import OpenRuns

    chosen = settings(no_llm=True)
    return OpenRuns(chosen, request_of_service(chosen), AllowedFolders.of(allowed))


def _user_folder() -> Path:
    from hermes_agent.config.sources import user_folder

    return user_folder(os.environ)


def _leave(runs: OpenRuns) -> None:
    """Close the runs; where a thread still reads one for a client that has gone, end the process at once."""
    runs.close()
    if runs.busy:
        from hermes_agent.locations.places import remove_temporary

        sys.stdout.flush()
        remove_temporary()
        os._exit(ExitCode.OK)
