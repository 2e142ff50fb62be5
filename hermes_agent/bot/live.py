"""A message that changes while work goes on, not more often than a chat program allows, and what it says meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hermes_agent.bot.message import Message
from hermes_agent.bot.platform import Platform, PlatformError, Posted
from hermes_agent.model.events import AnswerDelta, Event, StageProgress, StageStarted

EVERY_S = 1.5  # between two changes: Slack allows about 50 a minute


class LiveMessage:
    """``show`` may be called as often as one likes: the newest content is sent when it is time."""

    def __init__(self, platform: Platform, posted: Posted, every_s: float = EVERY_S) -> None:
        self._platform, self._posted, self._every_s = platform, posted, every_s
        self._latest: Message | None = None
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._send())

    def show(self, message: Message) -> None:
        """Show this soon, unless something newer comes first."""
        self._latest = message
        self._changed.set()

    async def finish(self, message: Message) -> None:
        """Show this as the last content; raises PlatformError."""
        await self.stop()
        await self._platform.update(self._posted, message)

    async def stop(self) -> None:
        """Send nothing more."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _send(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self._changed.wait()
            self._changed.clear()
            if self._latest is not None:
                with suppress(PlatformError):  # the last content counts, and its failure is reported
                    await self._platform.update(self._posted, self._latest)


class Progress:
    """Events as one line, or as the paragraphs of an answer that passed the checks so far.

    Details of a stage name files, whose hosts are not known before the diagnosis, so they are left out.
    """

    def __init__(self, title: str) -> None:
        self._title, self._answer = title, ""

    def text(self, event: Event) -> str:
        """The text to show, "" where the event changes nothing."""
        match event:
            case StageStarted(stage):
                return f"{self._title}: {stage.replace('_', ' ')} …"
            case StageProgress(stage, done, total) if total > 0 and not self._answer:
                return f"{self._title}: {stage.replace('_', ' ')}, {100 * min(done, total) // total} % …"
            case AnswerDelta(text):
                self._answer += text
                return self._answer
        return ""
