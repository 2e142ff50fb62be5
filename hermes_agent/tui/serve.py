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
COOKIE = "hermes_dx_chat"
NEEDED = "chat --serve needs the package textual-serve; install it with: pip install 'hermes-dx[serve]'"


def is_served(environment: Mapping[str, str]) -> bool:
    """Return whether this process is shown in a browser instead of a terminal."""
    return environment.get("TEXTUAL_DRIVER") == DRIVER


def refusal(host: str, origin: str | None, port: int, given: Sequence[str], token: str) -> str:
    """Why a request is refused, "" where it may pass.

    The names keep out pages of other places that a browser of this machine shows, the token other users of the machine.
    """
    names = (f"{HOST}:{port}", f"localhost:{port}")
    if host not in names:
        return "Open the chat by its address on this machine."
    if origin is not None and origin not in {f"http://{name}" for name in names}:
        return "Requests from other pages are refused."
    if not any(hmac.compare_digest(each.encode(), token.encode()) for each in given):
        return "Open the address that hermes-dx printed; it holds the token."
    return ""


def guard(port: int, token: str) -> Middleware:
    """A middleware that lets only the browser pass that was given the token, and lets pages load nothing else."""
    from aiohttp import web

    sources = f"'self' 'unsafe-inline' ws://{HOST}:{port} http://{HOST}:{port} data:"

    async def checked(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        given = (request.query.get("token", ""), request.cookies.get(COOKIE, ""))
        reason = refusal(request.host, request.headers.get("Origin"), port, given, token)
        if reason:
            return web.Response(status=403, text=reason)
        response = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = f"default-src {sources}"
            response.headers["Referrer-Policy"] = "no-referrer"
            response.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
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
        app = await server._make_app()
        app.middlewares.append(guard(port, token))
        return app

    announce(f"the chat is at http://{HOST}:{port}/?token={token} (this machine only); Ctrl+C ends it")
    try:
        web.run_app(application(), host=HOST, port=port, print=None)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error.strerror}; name another one: --serve PORT") from error
