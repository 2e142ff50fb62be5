"""The gate for all text on the screen: cleaned, never read as markup, citations made into links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from textual.content import Content
from textual.style import Style

from hermes_agent.evidence.citations import CITATION
from hermes_agent.llm.sanitize import clean

IDENTIFIER = re.compile(r"[EAC]\d+")
CODE = re.compile(r"`([^`\n]+)`")
LINK_STYLE = "$text-accent underline"
CHOSEN_STYLE = "reverse bold"
CODE_STYLE = "$text-warning"


@dataclass(frozen=True)
class Citation:
    """An id inside a text, from character ``start`` to ``end``."""

    id: str
    start: int
    end: int


def plain(text: str) -> Content:
    """Return outside text as it may be shown: no control or escape characters, no markup."""
    return Content(clean(text))


def prose(text: str) -> Content:
    """Return a sentence of ours: names in back quotes are set off."""
    content = plain(text)
    for match in CODE.finditer(content.plain):
        content = content.stylize(CODE_STYLE, *match.span())
    return content


def citations(text: str) -> Iterator[Citation]:
    """Yield the ids cited in a text, in order; ``[E1, C2]`` holds two."""
    for group in CITATION.finditer(text):
        for match in IDENTIFIER.finditer(text, *group.span()):
            yield Citation(match.group(), match.start(), match.end())


def linked(content: Content) -> Content:
    """Return the content with every citation a link that opens its record."""
    for each in citations(content.plain):
        content = content.stylize(LINK_STYLE, each.start, each.end)
        content = content.stylize(Style.from_meta({"@click": f"app.cite('{each.id}')"}), each.start, each.end)
    return content
