"""A platform without a network: what the bot says stays in memory. Next to Slack it is the second platform."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hermes_agent.bot.access import Access
from hermes_agent.bot.core import Bot, Limits, Parts
from hermes_agent.bot.desk import Desk
from hermes_agent.bot.message import Attachment, Controls, Links, Message, Paragraph, Title
from hermes_agent.bot.platform import Asked, Clicked, Place, PlatformError, Posted, Take
from hermes_agent.bot.threads import Threads
from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.model.events import Emit
from hermes_agent.model.request import Request
from hermes_agent.registered_runs import RegisteredRuns

ALLOWED = Access.of(["T1"], ["C1"], [], False)


@dataclass
class Channel:
    """Messages by id, in order, each as it is now; ``broken``: the platform refuses every call."""

    name: str = "test"
    messages: dict[str, Message] = field(default_factory=dict)
    threads: dict[str, str] = field(default_factory=dict)  # of each message
    updates: int = 0
    files: list[Attachment] = field(default_factory=list)
    broken: bool = False

    async def receive(self, take: Take) -> None:
        await asyncio.Event().wait()

    async def reply(self, place: Place, message: Message) -> Posted:
        if self.broken:
            raise PlatformError("the test refuses")
        name = f"m{len(self.messages) + 1}"
        self.messages[name] = message
        self.threads[name] = place.thread or name
        return Posted(Place(place.team, place.channel, place.thread or name), name)

    async def update(self, posted: Posted, message: Message) -> None:
        if self.broken:
            raise PlatformError("the test refuses")
        self.updates += 1
        self.messages[posted.id] = message

    async def upload(self, place: Place, files: Sequence[Attachment]) -> None:
        self.files += files

    @property
    def last(self) -> str:
        """The text of the last message."""
        return text_of(list(self.messages.values())[-1])

    def last_of(self, name: str) -> str:
        """The text of a message as it is now, "" before it is sent."""
        return text_of(self.messages[name]) if name in self.messages else ""


def text_of(message: Message) -> str:
    """All texts of a message, one below the other."""
    lines = []
    for part in message.parts:
        match part:
            case Title(text) | Paragraph(text):
                lines.append(text)
            case Links(text, links):
                lines += [text, *(f"{each.title} {each.url}" for each in links)]
            case Controls(_, items):
                lines += [item.label for item in items]
    return "\n".join(lines)


@dataclass
class Room:
    """A bot in a channel, with its files in one folder."""

    folder: Path
    cache: Path
    access: Access = ALLOWED
    limits: Limits = field(default_factory=lambda: Limits(update_s=0.01))
    settings: Settings | None = None
    reports: list[str] = field(default_factory=list)
    asked: int = 0
    desk: type[Desk] = Desk

    def __post_init__(self) -> None:
        self.channel = Channel()
        self.threads = Threads(self.folder / "slack")
        settings = self.settings or settings_of(self.folder, self.cache)
        desk = self.desk(settings, Request((), cache_dir=self.cache), self.threads)
        parts = Parts(self.channel, desk, self.threads, self.access, self.feedback, self.limits, self.reports.append)
        self.bot = Bot(parts)

    @property
    def feedback(self) -> Path:
        """The file of what people said."""
        return self.folder / "data" / "feedback.jsonl"

    async def ask(self, text: str, thread: str = "", **changed: object) -> str:
        """Say something to the bot and return its last message."""
        self.asked += 1
        event = Asked(f"C1:{self.asked}", Place("T1", "C1", thread), ("T1",), "U1", text)
        self.bot.take(Asked(**{**vars(event), **changed}))
        await self.bot.settled()
        return self.channel.last if self.channel.messages else ""

    async def click(self, thread: str, action: str, value: str, about: str = "") -> str:
        """Click on a button or menu and return the bot's last message."""
        self.asked += 1
        self.bot.take(Clicked(f"click:{self.asked}", Place("T1", "C1", thread), ("T1",), "U1", action, value, about))
        await self.bot.settled()
        return self.channel.last


class WithoutFiles(Desk):
    """A desk that draws nothing."""

    def files(self, run: str, emit: Emit) -> tuple[tuple[Attachment, ...], str]:
        return (), ""


def settings_of(folder: Path, cache: Path, **values: object) -> Settings:
    """Settings in which both bundled runs are registered."""
    settings = Settings.model_validate(
        {"cache_dir": cache, "runs_file": folder / "config" / "runs.json", "redact": False, **values}
    )
    runs = RegisteredRuns.load(settings)
    for name in ("slow", "fixed"):
        if name not in runs.runs:
            runs.add(name, [demo_run(name)])
    return settings
