"""What the core needs of a chat program: four calls, and events as records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from hermes_agent.bot.message import Attachment, Message


class PlatformError(Exception):
    """A chat program refused a call or cannot be reached; one sentence without secrets."""


@dataclass(frozen=True)
class Place:
    """Where something is said. ``thread``: "" begins a new one."""

    team: str
    channel: str
    thread: str = ""

    @property
    def key(self) -> str:
        """The thread's name for the store; ids of channels are unique."""
        return f"{self.channel}/{self.thread}"


@dataclass(frozen=True)
class Posted:
    """A message that was sent: its thread and its id there."""

    place: Place
    id: str


@dataclass(frozen=True)
class Asked:
    """A message to the bot. ``id`` is the same when it is delivered again; ``teams``: all that its author belongs to.

    ``text`` is plain, without the mention of the bot; ``cut_from`` its length where it was longer than a bot reads.
    """

    id: str
    place: Place
    teams: tuple[str, ...]
    user: str
    text: str
    cut_from: int = 0


@dataclass(frozen=True)
class Clicked:
    """A click on a button or a menu of the bot's message in ``place``."""

    id: str
    place: Place
    teams: tuple[str, ...]
    user: str
    action: str
    value: str
    about: str


Incoming: TypeAlias = Asked | Clicked
Take: TypeAlias = Callable[[Incoming], None]


class Platform(Protocol):
    """A chat program. ``receive`` runs until it is cancelled; the others raise PlatformError."""

    @property
    def name(self) -> str:
        """``slack``."""

    async def receive(self, take: Take) -> None:
        """Hand every event to ``take``, which returns at once, and acknowledge it."""

    async def reply(self, place: Place, message: Message) -> Posted:
        """Send a message; in a new thread where the place names none."""

    async def update(self, posted: Posted, message: Message) -> None:
        """Replace a message of ours."""

    async def upload(self, place: Place, files: Sequence[Attachment]) -> None:
        """Send files into a thread."""
