"""Messages of the bot as plain records; each platform draws them in its own way.

Texts are Markdown as the answers write it: names in back quotes, ``**bold**``, lists, tables. Nothing else is markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Title:
    """A heading; plain text."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Text; ``small`` for what is read last."""

    text: str
    small: bool = False


@dataclass(frozen=True)
class Link:
    """A title that opens a web page."""

    title: str
    url: str


@dataclass(frozen=True)
class Links:
    """Links under each other, after a few words."""

    text: str
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Button:
    """``action`` and ``value`` come back with a click."""

    action: str
    label: str
    value: str


@dataclass(frozen=True)
class Menu:
    """A list to choose from, pairs of label and value; the chosen value comes back."""

    action: str
    label: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Controls:
    """Buttons and menus in a row; ``about`` comes back with each click on them."""

    about: str
    items: tuple[Button | Menu, ...]


Part: TypeAlias = Title | Paragraph | Links | Controls


@dataclass(frozen=True)
class Message:
    """``summary`` is one plain line for notifications and screen readers."""

    summary: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Attachment:
    """A file to upload; ``alt`` describes a picture."""

    name: str
    title: str
    content: bytes
    alt: str = ""


def sentence(text: str) -> Message:
    """A message of one paragraph."""
    return Message(text, (Paragraph(text),))
