"""Sentences of a diagnosis as HTML: citations become links to their rows, back quotes code, everything else is text."""

from __future__ import annotations

import re
from collections.abc import Container
from urllib.parse import urlsplit

from markupsafe import Markup, escape

CITED = re.compile(r"\[([EACLH]\d+(?:\s*[,;]\s*[EACLH]\d+)*)\]")
IDENTIFIER = re.compile(r"[EACLH]\d+")
QUOTED = re.compile(r"`([^`]+)`")
SCHEMES = ("http", "https")


def linked(text: str, known: Container[str]) -> Markup:
    """The text with a link for every cited id that the page holds."""
    parts, begin = [], 0
    for match in QUOTED.finditer(text):
        parts += [_cited(text[begin : match.start()], known), Markup("<code>{}</code>").format(match[1])]
        begin = match.end()
    return Markup("").join([*parts, _cited(text[begin:], known)])


def _cited(text: str, known: Container[str]) -> Markup:
    parts, begin = [], 0
    for match in CITED.finditer(text):
        parts += [escape(text[begin : match.start()]), Markup("[{}]").format(_links(match[1], known))]
        begin = match.end()
    return Markup("").join([*parts, escape(text[begin:])])


def _links(identifiers: str, known: Container[str]) -> Markup:
    parts, begin = [], 0
    for match in IDENTIFIER.finditer(identifiers):
        parts += [escape(identifiers[begin : match.start()]), link(match[0], known)]
        begin = match.end()
    return Markup("").join([*parts, escape(identifiers[begin:])])


def link(identifier: str, known: Container[str]) -> Markup:
    """A link to the row of an id, the id alone where the page has no such row."""
    if identifier not in known:
        return escape(identifier)
    return Markup('<a class="cite" href="#{0}">{0}</a>').format(identifier)


def web_address(url: str) -> str:
    """The URL where a reader may follow it; "" for any scheme but http and https."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in SCHEMES and parts.netloc else ""
