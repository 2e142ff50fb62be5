"""Alerts of the monitor in a channel, and the diagnosis of each capture in the thread of the alert before it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.bot.alerts import Alert, AlertWatch
from hermes_agent.bot.core import Bot
from hermes_agent.bot.message import Message, Paragraph, Part, Title
from hermes_agent.bot.platform import Place, PlatformError, Posted
from hermes_agent.model.display import plain
from tools.errors import HermesError

LOOK_S = 5.0


@dataclass(frozen=True)
class Watched:
    """A registered run, its folder, and where its alerts go."""

    run: str
    folder: Path
    place: Place


class Announcer:
    """The alerts of one run. What fails is reported and tried again at the next look."""

    def __init__(self, bot: Bot, watched: Watched, watch: AlertWatch) -> None:
        self._bot, self._watched, self._watch = bot, watched, watch
        self._last: Posted | None = None

    async def run(self, every_s: float = LOOK_S) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(every_s)

    async def look(self) -> None:
        """Announce what is new."""
        run = self._watched.run
        try:
            found = await asyncio.to_thread(self._watch.look)
            for alert in found.alerts:
                self._last = await self._bot.announce(self._watched.place, run, alert_message(run, alert))
            for folder in found.captures:
                place = self._last.place if self._last is not None else self._watched.place
                await self._bot.captured(place, run, folder)
        except (PlatformError, HermesError, OSError) as error:
            self._bot.report(f"alerts of {run}: {error}")


def alert_message(run: str, alert: Alert) -> Message:
    """What the agent noticed."""
    claim = f"{alert.claim[:1].upper()}{alert.claim[1:].rstrip('.')}."
    parts: list[Part] = [Title(f"{run}: {plain(alert.kind)}"), Paragraph(claim)]
    if alert.left_out:
        parts.append(Paragraph(f"{alert.left_out} more within the hour were not announced.", small=True))
    return Message(f"{run}: {plain(alert.kind)}. {claim}", tuple(parts))
