"""Answer in Slack: mentions, direct messages, /hermes, and alerts of the monitor."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import number_between, request_of_service, settings
from hermes_agent.cli.terminal import note
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hermes_agent.bot.announce import Watched
    from hermes_agent.bot.slack.platform import Credentials
    from hermes_agent.config.settings import Settings

PORT = 8139
HOST = "127.0.0.1"
PACKAGES = ("slack_bolt", "aiohttp")
NEEDED = "hermes-dx slack needs the packages slack-bolt and aiohttp; install them with: pip install 'hermes-dx[slack]'"
TOKENS = {  # environment variable: file next to the user's settings
    "SLACK_BOT_TOKEN": "slack-bot-token",
    "SLACK_APP_TOKEN": "slack-app-token",
    "SLACK_SIGNING_SECRET": "slack-signing-secret",
}
NOBODY = (
    "nobody may ask yet: name who may with --team, --channel or --user (ids such as T012, C012, U012), or answer "
    "everybody who can reach the bot with --everyone"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``slack``."""
    for name, letter in (("team", "T"), ("channel", "C"), ("user", "U")):
        text = f"answer this {name} only (its id); may be repeated, and every kind that is given has to fit"
        parser.add_argument(f"--{name}", action="append", default=[], metavar=f"{letter}ID", help=text)
    parser.add_argument("--everyone", action="store_true", help="answer everybody who can reach the bot")
    text = f"take HTTP requests on this port instead of Socket Mode, behind a proxy with TLS; default port {PORT}"
    parser.add_argument("--http", nargs="?", const=PORT, type=number_between(1024, 65535), metavar="PORT", help=text)
    parser.add_argument("--host", default=HOST, help=f"address that --http listens on; default {HOST}")
    text = "announce what the monitor's agent notices in a registered run in a channel (its id); may be repeated"
    parser.add_argument("--alerts", action="append", default=[], metavar="RUN=CHANNEL", help=text)
    text = "questions and clicks of one user within an hour; default 20"
    parser.add_argument("--per-hour", type=number_between(1, 10_000), default=20, metavar="N", help=text)
    parser.add_argument("--no-llm", action="store_true", help="answer from templates even if a model is configured")
    parser.add_argument(
        "--manifest", action="store_true", help="print the manifest to make the Slack app from, and exit"
    )


def run(args: argparse.Namespace) -> int:
    """Answer until interrupted."""
    if args.manifest:
        print(manifest(), end="")
        return ExitCode.OK
    if args.everyone and (args.team or args.channel or args.user):
        raise UsageError("--everyone goes without --team, --channel and --user")
    if not (args.everyone or args.team or args.channel or args.user):
        raise UsageError(NOBODY)
    if any(find_spec(name) is None for name in PACKAGES):
        raise UsageError(NEEDED)
    if os.environ.get("SLACK_CLIENT_ID") and os.environ.get("SLACK_CLIENT_SECRET"):
        raise UsageError(
            "unset SLACK_CLIENT_ID and SLACK_CLIENT_SECRET: the bot serves one workspace, by its bot token"
        )
    chosen = settings(no_llm=args.no_llm)
    found = credentials(args.http is not None)
    watched = _watched(args.alerts, chosen)
    return _serve(args, chosen, found, watched)


def manifest() -> str:
    """The manifest of the Slack app."""
    from importlib.resources import files

    return (files("hermes_agent") / "bot" / "slack" / "manifest.json").read_text(encoding="utf-8")


def credentials(http: bool) -> Credentials:
    """The tokens from the environment or the private files; raises UsageError naming what is missing."""
    from hermes_agent.bot.slack.platform import Credentials

    if http:
        return Credentials(_secret("SLACK_BOT_TOKEN", "xoxb-"), signing_secret=_secret("SLACK_SIGNING_SECRET", ""))
    return Credentials(_secret("SLACK_BOT_TOKEN", "xoxb-"), app_token=_secret("SLACK_APP_TOKEN", "xapp-"))


def _secret(variable: str, begin: str) -> str:
    from hermes_agent.config.sources import read_key, user_folder

    path = user_folder(os.environ) / TOKENS[variable]
    text = os.environ.get(variable, "").strip() or (read_key(path, variable) if path.exists() else "")
    if not text:
        raise UsageError(f"{variable} is not set; set it, or write it into {path} with mode 600")
    if not text.startswith(begin) or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(f"{variable} is no such token: it has to begin with {begin or 'a letter or digit'}")
    return text


def _watched(alerts: Sequence[str], chosen: Settings) -> tuple[Watched, ...]:
    from hermes_agent.bot.announce import Watched
    from hermes_agent.bot.platform import Place
    from hermes_agent.registered_runs import RegisteredRuns

    found = []
    for each in alerts:
        name, equals, channel = each.partition("=")
        if not equals or not channel.isalnum():
            raise UsageError(f"--alerts {each}: write RUN=CHANNEL, for example train-7=C012AB3CD")
        folder = RegisteredRuns.load(chosen).get(name).paths[0]
        if not folder.is_dir():
            raise UsageError(f"--alerts {name}: {folder} is no run folder that the monitor writes to")
        found.append(Watched(name, folder, Place("", channel)))
    return tuple(found)


def _serve(args: argparse.Namespace, chosen: Settings, found: Credentials, watched: Sequence[Watched]) -> int:
    import asyncio

    from hermes_agent.bot.access import Access
    from hermes_agent.bot.core import Limits, Parts
    from hermes_agent.bot.desk import Desk
    from hermes_agent.bot.feedback import FILE
    from hermes_agent.bot.platform import PlatformError
    from hermes_agent.bot.slack.platform import Listening, SlackPlatform
    from hermes_agent.bot.slack.service import WithoutSecrets, serve
    from hermes_agent.bot.threads import Threads
    from hermes_agent.config.sources import xdg_folder

    for handler in logging.getLogger().handlers:
        handler.addFilter(WithoutSecrets(found.secrets))
    threads = Threads(xdg_folder(os.environ, "XDG_STATE_HOME", ".local/state") / "slack")
    platform = SlackPlatform(found, None if args.http is None else Listening(args.host, args.http))
    parts = Parts(
        platform=platform,
        desk=Desk(chosen, request_of_service(chosen), threads),
        threads=threads,
        access=Access.of(args.team, args.channel, args.user, args.everyone),
        feedback=xdg_folder(os.environ, "XDG_DATA_HOME", ".local/share") / FILE,
        limits=Limits(questions=args.per_hour),
        report=note,
    )
    how = "Socket Mode" if args.http is None else f"http://{args.host}:{args.http}/slack/events"
    masks = (
        "names of hosts, users and paths are masked" if chosen.redact is not False else "names are shown as they are"
    )
    whom = "everybody" if args.everyone else "the allow-list"
    note(f"answering {whom} on Slack ({how}); {masks}; Ctrl+C ends it")
    try:
        asyncio.run(serve(platform, parts, watched))
    except PlatformError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{how} cannot be served: {error.strerror or error}") from error
    finally:
        threads.close()
    return ExitCode.OK
