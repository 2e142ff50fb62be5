"""The chat in a browser of the same machine: on 127.0.0.1 only, with a token, and without requests to other places."""

from __future__ import annotations

import hmac
import secrets
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tools.errors import UsageError

if TYPE_CHECKING:
    from aiohttp import web

Middleware: TypeAlias = "Callable[..., Awaitable[web.StreamResponse]]"
HOST = "127.0.0.1"
DRIVER = "textual.drivers.web_driver:WebDriver"  # what textual-serve sets for the program that it shows
MOST_CHATS = 8  # pages open at a time; each is a process with a run in memory
FULL = f"{MOST_CHATS} chats are open already; close one of their pages, then load this page again."
NEEDED = "chat --serve needs the package textual-serve; install it with: pip install 'hermes-dx[serve]'"


def is_served(environment: Mapping[str, str]) -> bool:
    """Return whether this process is shown in a browser instead of a terminal."""
    return environment.get("TEXTUAL_DRIVER") == DRIVER


def refusal(host: str, origin: str | None, path: str, port: int, token: str) -> str:
    """Why a request is refused, "" where it may pass.

    The names keep out pages of other places that a browser of this machine shows, the token other users of the machine.
    It is the first part of the path, not a cookie, which a browser would send to every port of this machine.
    """
    names = (f"{HOST}:{port}", f"localhost:{port}")
    if host not in names:
        return "Open the chat by its address on this machine."
    if origin is not None and origin not in {f"http://{name}" for name in names}:
        return "Requests from other pages are refused."
    if not hmac.compare_digest(path.split("/")[1].encode(), token.encode()):
        return "Open the address that hermes-dx printed; it holds the token."
    return ""


def guard(port: int, token: str) -> Middleware:
    """A middleware that lets only pages with the token pass, ``MOST_CHATS`` at a time, which load nothing else."""
    from aiohttp import web

    sources = f"'self' 'unsafe-inline' ws://{HOST}:{port} http://{HOST}:{port} data:"
    page, socket = f"/{token}/", f"/{token}/ws"
    open_chats = 0

    async def checked(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        nonlocal open_chats
        reason = refusal(request.host, request.headers.get("Origin"), request.path, port, token)
        if reason:
            return web.Response(status=403, text=reason)
        if request.path in (page, socket) and open_chats >= MOST_CHATS:
            return web.Response(status=503, text=FULL)
        if request.path == socket:  # lasts as long as its page is open
            open_chats += 1
            try:
                return await handler(request)
            finally:
                open_chats -= 1
        response = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = f"default-src {sources}; frame-ancestors 'none'"
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cache-Control"] = "no-store"
        return response

    middleware: Middleware = web.middleware(checked)
    return middleware


def serve(command: Sequence[str], port: int, announce: Callable[[str], None]) -> None:
    """Show the program of a command to browsers of this machine until it is interrupted; raises UsageError."""
    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError:
        raise UsageError(NEEDED) from None
    token = secrets.token_urlsafe(24)
    server = Server(shlex.join(command), HOST, port, "Hermes", f"http://{HOST}:{port}")
    server.console.quiet = True

    async def application() -> web.Application:
        app = web.Application(middlewares=[guard(port, token)])
        app.add_subapp(f"/{token}/", await server._make_app())
        return app

    announce(f"the chat is at http://{HOST}:{port}/{token}/ (this machine only); Ctrl+C ends it")
    try:
        web.run_app(application(), host=HOST, port=port, print=None)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}; name another one: --serve PORT") from error
