"""The two ways to reach the server: standard input and output, or HTTP on this machine with a token."""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from tools.errors import UsageError
from tools.leftovers import private_folder

HOST = "127.0.0.1"
PATH = "/mcp"
MOST_SESSIONS = 64
MOST_BODY_BYTES = 2**20
IDLE_S = 1800.0
TOKEN_BYTES = 32
LONGEST_TOKEN = 1024

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


def serve_stdio(server: Server[Any]) -> None:
    """Serve the client that started this process until it closes standard input.

    The SDK keeps the protocol's stream for itself: what anything else prints goes to standard error.
    """

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(serve)


def bound_socket(port: int) -> socket.socket:
    """A socket on this machine's own address; raises UsageError where the port is taken."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise UsageError(f"port {port} cannot be used: {error.strerror}; name another one: --http PORT") from error
    return listening


def serve_http(server: Server[Any], listening: socket.socket, token: str) -> None:
    """Serve clients of this machine that have the token, until interrupted."""
    anyio.run(http_server(server, listening, token).serve, [listening])


def http_server(server: Server[Any], listening: socket.socket, token: str) -> uvicorn.Server:
    """The HTTP server, without logs of its own on standard output."""
    port = int(listening.getsockname()[1])
    names = hosts(port)
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MOST_BODY_BYTES,
        session_idle_timeout=IDLE_S,
        max_sessions=MOST_SESSIONS,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=list(names),
            allowed_origins=[f"http://{name}" for name in names],
        ),
    )
    config = uvicorn.Config(
        guarded(application, port, token),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ws="none",
    )
    return uvicorn.Server(config)


def hosts(port: int) -> tuple[str, ...]:
    """The names of this server in requests."""
    return f"{HOST}:{port}", f"localhost:{port}"


def refusal(headers: Mapping[str, str], port: int, token: str) -> tuple[int, str] | None:
    """Status and reason where a request is refused, None where it may pass.

    Host and Origin keep out pages that a browser of this machine shows, the token other users of the machine.
    """
    names = hosts(port)
    if headers.get("host") not in names:
        return 421, "Use the address of this server on this machine."
    if headers.get("origin") is not None and headers["origin"] not in {f"http://{name}" for name in names}:
        return 403, "Requests from other pages are refused."
    scheme, _, given = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        return 401, "Send the header Authorization: Bearer TOKEN; hermes-dx mcp --http names the file with the token."
    return None


def guarded(application: Application, port: int, token: str) -> Application:
    """The application for requests of this machine's own clients that carry the token; all others are refused."""

    async def serve(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            await application(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = refusal(headers, port, token)
        if refused is None:
            await application(scope, receive, send)
            return
        status, reason = refused
        answer = [(b"content-type", b"text/plain; charset=utf-8")]
        if status == 401:
            answer.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": status, "headers": answer})
        await send({"type": "http.response.body", "body": reason.encode()})

    return serve


def token_of(path: Path) -> str:
    """The token in a private file, which is written where there is none; raises UsageError."""
    try:
        private_folder(path.parent)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            return _stored_token(path)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token := secrets.token_urlsafe(TOKEN_BYTES))
        return token
    except OSError as error:
        raise UsageError(
            f"{path}: the token cannot be kept there ({error.strerror}); name another --token-file"
        ) from error


def _stored_token(path: Path) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.getuid():
            raise UsageError(f"{path} holds the token but others can get at it; run: chmod 600 {path}")
        token = file.read(LONGEST_TOKEN + 1).decode("ascii", "replace").strip()
    if not 20 <= len(token) <= LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{path} has to hold a token of 20 characters or more; remove it to have a new one made")
    return token
