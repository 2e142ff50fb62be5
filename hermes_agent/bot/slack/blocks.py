"""Messages as Block Kit, within Slack's limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from hermes_agent.bot.answer import answer_of
from hermes_agent.bot.message import Button, Controls, Links, Menu, Message, Paragraph, Part, Title
from hermes_agent.bot.slack.mrkdwn import escaped, sections
from hermes_agent.llm.sanitize import clean, one_line
from hermes_agent.model.diagnosis import Diagnosis

Block: TypeAlias = dict[str, Any]

MOST_BLOCKS = 50
TITLE_CHARS = 150
LABEL_CHARS = 75
VALUE_CHARS = 2000
MENU_VALUE_CHARS = 150
BLOCK_ID_CHARS = 255
MOST_OPTIONS = 100
SUMMARY_CHARS = 1000
LINK_CHARS = 200
URL_CHARS = 500
PREFIX = "hermes_"  # of the action ids
CUT = "This message was cut: it would be longer than Slack allows. The report holds everything."


def blocks_of(diagnosis: Diagnosis, run: str = "run", others: Sequence[str] = ()) -> list[Block]:
    """The answer to a diagnosis as blocks; ``others``: registered runs to compare with."""
    return blocks(answer_of(diagnosis, run, others))


def blocks(message: Message) -> list[Block]:
    """The message as at most 50 blocks; the controls stay where something has to be left out."""
    found = [block for part in message.parts for block in _blocks(part)]
    if len(found) <= MOST_BLOCKS:
        return found
    controls = [block for block in found if block["type"] == "actions"][: MOST_BLOCKS - 2]
    texts = [block for block in found if block["type"] != "actions"][: MOST_BLOCKS - len(controls) - 1]
    return [*texts, _context(CUT), *controls]


def summary(message: Message) -> str:
    """The text for notifications, which has no markup."""
    return escaped(one_line(message.summary, SUMMARY_CHARS)) or "Hermes"


def _blocks(part: Part) -> list[Block]:
    match part:
        case Title(text):
            return [{"type": "header", "text": _plain(text, TITLE_CHARS)}]
        case Paragraph(text, small):
            return [_context(each) if small else _section(each) for each in sections(clean(text))]
        case Links(text, links):
            lines = [f"• {_link(each.title, each.url)}" for each in links]
            head = sections(clean(text))[:1]
            return [_section("\n".join([*head, *lines]))]
        case Controls(about, items):
            elements = [_element(item) for item in items]
            return [{"type": "actions", "block_id": about[:BLOCK_ID_CHARS], "elements": elements}]


def _section(text: str) -> Block:
    return {"type": "section", "text": _mrkdwn(text)}


def _context(text: str) -> Block:
    return {"type": "context", "elements": [_mrkdwn(text)]}


def _mrkdwn(text: str) -> Block:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _plain(text: str, most: int) -> Block:
    text = one_line(text, 4 * most)
    return {"type": "plain_text", "text": text if len(text) <= most else text[: most - 1] + "…", "emoji": False}


def _element(item: Button | Menu) -> Block:
    match item:
        case Button(action, label, value):
            name = {"type": "button", "action_id": PREFIX + action, "text": _plain(label, LABEL_CHARS)}
            return {**name, "value": value[:VALUE_CHARS]}
        case Menu(action, label, options):
            listed = [
                {"text": _plain(text, LABEL_CHARS), "value": value}
                for text, value in options
                if len(value) <= MENU_VALUE_CHARS
            ]
            name = {"type": "static_select", "action_id": PREFIX + action, "placeholder": _plain(label, LABEL_CHARS)}
            return {**name, "options": listed[:MOST_OPTIONS]}


def _link(title: str, url: str) -> str:
    """A link to a web page; the title alone for any other address."""
    text = escaped(one_line(title, LINK_CHARS)).replace("|", "/")
    parts = urlsplit(url)
    sound = parts.scheme in ("http", "https") and parts.netloc and len(url) <= URL_CHARS
    return f"<{escaped(url)}|{text}>" if sound and url.isprintable() and not set(url) & set(' <>|"`') else text
