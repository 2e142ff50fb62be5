"""Slack as a platform: events in, messages out, over Socket Mode or HTTP."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
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

from hermes_agent.bot.core import LONGEST_TEXT
from hermes_agent.bot.message import Attachment, Message
from hermes_agent.bot.platform import Asked, Clicked, Incoming, Place, PlatformError, Posted, Take
from hermes_agent.bot.slack import mrkdwn
from hermes_agent.bot.slack.blocks import PREFIX, blocks, summary
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


def message_event(body: Mapping[str, Any], event: Mapping[str, Any]) -> Asked | None:
    """A mention or a direct message; None for what bots write and for edits.

    Its id is that of the message, which may be delivered as several events and several times.
    """
    if event.get("bot_id") or event.get("subtype") or not event.get("user"):
        return None
    team, channel, ts = (str(each or "") for each in (body.get("team_id"), event.get("channel"), event.get("ts")))
    teams = _teams(team, event.get("team"), event.get("user_team"), event.get("source_team"))
    place = Place(team, channel, str(event.get("thread_ts") or ts))
    return _asked(f"{channel}:{ts}", place, teams, str(event["user"]), str(event.get("text") or ""))


def command_event(body: Mapping[str, Any]) -> Asked:
    """A slash command; its answer begins a thread."""
    team = str(body.get("team_id") or "")
    place = Place(team, str(body.get("channel_id") or ""))
    return _asked(
        f"command:{body.get('trigger_id')}",
        place,
        _teams(team),
        str(body.get("user_id") or ""),
        str(body.get("text") or ""),
    )


def click_event(body: Mapping[str, Any]) -> Clicked | None:
    """A click on a button or menu of ours; None where nothing was chosen."""
    action = next(iter(body.get("actions") or ()), None)
    if not isinstance(action, Mapping):
        return None
    user, container = body.get("user") or {}, body.get("container") or {}
    message = body.get("message") or {}
    chosen = action.get("selected_option") or {}
    team = str((body.get("team") or {}).get("id") or "")
    channel = str((body.get("channel") or {}).get("id") or container.get("channel_id") or "")
    thread = str(container.get("thread_ts") or message.get("thread_ts") or container.get("message_ts") or "")
    return Clicked(
        id=f"click:{container.get('message_ts')}:{action.get('action_ts')}:{action.get('action_id')}:{user.get('id')}",
        place=Place(team, channel, thread),
        teams=_teams(team, user.get("team_id")),
        user=str(user.get("id") or ""),
        action=str(action.get("action_id") or "").removeprefix(PREFIX),
        value=str(action.get("value") or chosen.get("value") or ""),
        about=str(action.get("block_id") or ""),
    )


def _asked(identifier: str, place: Place, teams: tuple[str, ...], user: str, text: str) -> Asked:
    """The text is bounded before anything looks into it."""
    if len(text) > 2 * LONGEST_TEXT:
        return Asked(identifier, place, teams, user, "", len(text))
    return Asked(identifier, place, teams, user, mrkdwn.plain(text))


def _teams(*names: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(name) for name in names if name))


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
