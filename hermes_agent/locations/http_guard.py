"""Requests for a run at an HTTP address: only to the scheme and host that the user named, and never expanded."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes_agent.locations.places import without_credentials

if TYPE_CHECKING:
    from types import SimpleNamespace

    from aiohttp import ClientSession, TraceRequestRedirectParams, TraceRequestStartParams
    from yarl import URL

PROTOCOLS = ("http", "https")


@dataclass
class HttpGuard:
    """Watches the requests of a file system; ``refused`` is where the server wanted to send us, empty so far."""

    url: str
    refused: str = ""
    _named: set[URL] = field(default_factory=set)  # scheme, host and port of each part of the URL

    def options(self) -> dict[str, Any]:
        """Return the options that make fsspec ask through this guard, by protocol."""
        parts = [part for part in self.url.split("::") if part.partition("://")[0].lower() in PROTOCOLS]
        if not parts:
            return {}
        from yarl import URL

        self._named = {URL(part).origin() for part in parts}
        # Every guard gets a file system of its own: fsspec would return one that another guard watches.
        own = {"get_client": self._client, "skip_instance_cache": True}
        return {part.partition("://")[0].lower(): own for part in parts}

    async def _client(self, **given: Any) -> ClientSession:  # noqa: ANN401 - passed on as fsspec gives it
        import aiohttp

        watch = aiohttp.TraceConfig()
        watch.on_request_start.append(self._starts)
        watch.on_request_redirect.append(self._redirected)
        # Compressed content stays as it is sent: the readers of the copy expand it within their bounds.
        identity = {"Accept-Encoding": "identity"}
        return aiohttp.ClientSession(**given, trace_configs=[watch], auto_decompress=False, headers=identity)

    async def _starts(self, _: ClientSession, __: SimpleNamespace, asked: TraceRequestStartParams) -> None:
        self._check(asked.url)

    async def _redirected(self, _: ClientSession, __: SimpleNamespace, answer: TraceRequestRedirectParams) -> None:
        from yarl import URL

        headers = answer.response.headers
        target = headers.get("Location") or headers.get("URI") or ""
        self._check(answer.response.url.join(URL(target)))

    def _check(self, target: URL) -> None:
        if not target.host or target.origin() not in self._named:
            self.refused = self.refused or without_credentials(str(target))
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
