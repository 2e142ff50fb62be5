"""The bot on Slack as a service: runs until interrupted, with the alerts of the runs it watches."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress

from hermes_agent.bot.alerts import AlertWatch
from hermes_agent.bot.announce import LOOK_S, Announcer, Watched
from hermes_agent.bot.core import Bot, Parts
from hermes_agent.bot.slack.platform import SlackPlatform

TOKENS = re.compile(r"xox[a-z]-[\w-]+|xapp-[\w-]+|(?<=ticket=)[\w.-]+|(?<=Bearer )\S+")
MASK = "***"


class WithoutSecrets(logging.Filter):
    """Masks tokens in log records, whichever library writes them."""

    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, with its text masked."""
        text = record.getMessage()
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        record.msg, record.args = TOKENS.sub(MASK, text), ()
        return True


async def serve(platform: SlackPlatform, parts: Parts, watched: Sequence[Watched], look_s: float = LOOK_S) -> None:
    """Answer until cancelled; raises PlatformError where Slack does not take the tokens."""
    await platform.check()
    bot = Bot(parts)
    announcers = [Announcer(bot, each, AlertWatch(each.folder)) for each in watched]
    tasks = [asyncio.create_task(each.run(look_s)) for each in announcers]
    try:
        await bot.run()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
