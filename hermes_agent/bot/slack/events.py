"""What Slack sends, as events of the bot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes_agent.bot.core import LONGEST_TEXT
from hermes_agent.bot.platform import Asked, Clicked, Place
from hermes_agent.bot.slack.blocks import PREFIX
from hermes_agent.bot.slack.mrkdwn import plain


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
    return Asked(identifier, place, teams, user, plain(text))


def _teams(*names: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(name) for name in names if name))
