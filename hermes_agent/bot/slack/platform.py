"""Slack as a platform: events in, messages out, over Socket Mode or HTTP."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler, async_default_handlers
from slack_sdk.web.async_client import AsyncWebClient

from hermes_agent.bot.message import Attachment, Message
from hermes_agent.bot.platform import Incoming, Place, PlatformError, Posted, Take
from hermes_agent.bot.slack.blocks import PREFIX, blocks, summary
from hermes_agent.bot.slack.events import click_event, command_event, message_event
from hermes_agent.evidence.printable import printable

PATH = "/slack/events"
MOST_BODY_BYTES = 1 << 20
RATE_LIMIT_TRIES = 5  # Slack says how long to wait each time
LONGEST_CALL_S = 300.0
COMMAND = "/hermes"
API = "https://slack.com/api/"
Done = TypeVar("Done")


@dataclass(frozen=True)
class Credentials:
    """Tokens of the app; Socket Mode needs ``app_token``, HTTP the ``signing_secret``."""

    bot_token: str
    app_token: str = ""
    signing_secret: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be seen anywhere."""
        return tuple(filter(None, (self.bot_token, self.app_token, self.signing_secret)))


@dataclass(frozen=True)
class Listening:
    """Where HTTP requests are taken; a proxy with TLS stands before it."""

    host: str
    port: int


class SlackPlatform:
    """One app in one workspace; ``listening`` None: Socket Mode."""

    name = "slack"

    def __init__(self, credentials: Credentials, listening: Listening | None, api_url: str = "") -> None:
        """``api_url``: another server than Slack's, for tests."""
        limited = AsyncRateLimitErrorRetryHandler(max_retry_count=RATE_LIMIT_TRIES)
        handlers = [*async_default_handlers(), limited]
        self._client = AsyncWebClient(credentials.bot_token, base_url=api_url or API, retry_handlers=handlers)
        self._credentials, self._listening = credentials, listening
        self._ready = asyncio.Event()

    async def check(self) -> None:
        """Raise PlatformError where Slack does not take the tokens: Socket Mode would try again for ever."""
        await self._called(self._client.auth_test())
        if self._listening is None:
            await self._called(self._client.apps_connections_open(app_token=self._credentials.app_token))

    async def ready(self) -> None:
        """Return when events can come."""
        await self._ready.wait()

    async def receive(self, take: Take) -> None:
        """See Platform."""
        app = bolt_app(self._client, self._credentials.signing_secret if self._listening else "", take)
        if self._listening is not None:
            await self._serve(app, self._listening)
        else:
            await self._connect(app)

    async def reply(self, place: Place, message: Message) -> Posted:
        """See Platform."""
        sent = self._client.chat_postMessage(
            channel=place.channel,
            thread_ts=place.thread or None,
            text=summary(message),
            blocks=blocks(message),
            unfurl_links=False,
            unfurl_media=False,
            parse="none",
            link_names=False,
            mrkdwn=False,
        )
        answer = await self._called(sent)
        ts = str(answer.get("ts", ""))
        return Posted(Place(place.team, str(answer.get("channel") or place.channel), place.thread or ts), ts)

    async def update(self, posted: Posted, message: Message) -> None:
        """See Platform."""
        changed = self._client.chat_update(
            channel=posted.place.channel,
            ts=posted.id,
            text=summary(message),
            blocks=blocks(message),
            parse="none",
            link_names=False,
        )
        await self._called(changed)

    async def upload(self, place: Place, files: Sequence[Attachment]) -> None:
        """See Platform."""
        uploads = [
            {"filename": each.name, "title": each.title, "content": each.content, "alt_txt": each.alt or None}
            for each in files
        ]
        await self._called(
            self._client.files_upload_v2(file_uploads=uploads, channel=place.channel, thread_ts=place.thread)
        )

    async def _called(self, call: Awaitable[Done]) -> Done:
        """The answer to a call; raises PlatformError, without the token that errors of a connection may repeat."""
        try:
            async with asyncio.timeout(LONGEST_CALL_S):
                return await call
        except SlackClientError as error:
            said = error.response.get("error", "") if isinstance(error, SlackApiError) else type(error).__name__
            raise PlatformError(f"Slack refused a call: {printable(str(said), 100)}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise PlatformError(f"Slack cannot be reached ({type(error).__name__})") from error

    async def _connect(self, app: AsyncApp) -> None:
        handler: Any = AsyncSocketModeHandler(app, self._credentials.app_token)
        try:
            await self._called(handler.connect_async())
            self._ready.set()
            await asyncio.Event().wait()
        finally:
            await handler.close_async()

    async def _serve(self, app: AsyncApp, listening: Listening) -> None:
        server = web.Application(client_max_size=MOST_BODY_BYTES)

        async def answered(request: web.Request) -> web.Response:
            return await _answered(app, request)

        server.add_routes([web.post(PATH, answered)])
        runner = web.AppRunner(server, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, listening.host, listening.port).start()
            self._ready.set()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()


def bolt_app(client: AsyncWebClient, signing_secret: str, take: Take) -> AsyncApp:
    """The app of slack-bolt: it checks signatures where there is a secret, acknowledges, and hands events on."""
    app = AsyncApp(
        name="hermes-dx",
        logger=logging.getLogger("hermes_slack"),
        client=client,
        signing_secret=signing_secret or "not used in Socket Mode",
        request_verification_enabled=bool(signing_secret),
    )

    async def mentioned(body: dict[str, Any], event: dict[str, Any]) -> None:
        _hand_on(take, message_event(body, event))

    async def direct(body: dict[str, Any], event: dict[str, Any]) -> None:
        if event.get("channel_type") == "im":
            _hand_on(take, message_event(body, event))

    async def commanded(ack: Callable[[], Awaitable[object]], body: dict[str, Any]) -> None:
        await ack()
        take(command_event(body))

    async def clicked(ack: Callable[[], Awaitable[object]], body: dict[str, Any]) -> None:
        await ack()
        _hand_on(take, click_event(body))

    app.event("app_mention")(mentioned)
    app.event("message")(direct)
    app.command(COMMAND)(commanded)
    app.action(re.compile(f"^{PREFIX}"))(clicked)
    return app


def _hand_on(take: Take, event: Incoming | None) -> None:
    if event is not None:
        take(event)


async def _answered(app: AsyncApp, request: web.Request) -> web.Response:
    """A request of Slack; what is no text or has no time is refused as unsigned."""
    if not re.fullmatch(r"\d{1,12}", request.headers.get("X-Slack-Request-Timestamp", "")):
        return web.Response(status=401)
    try:
        asked = await to_bolt_request(request)
    except ValueError:  # no UTF-8
        return web.Response(status=400)
    return await to_aiohttp_response(await app.async_dispatch(asked))
