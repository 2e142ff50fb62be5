"""Text to search terms: identifiers are split, endings trimmed, accents folded, filler words dropped."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files

_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9_]*|\d+[A-Za-z][A-Za-z0-9]*")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[A-Za-z]*")
MAX_TEXT = 20_000


@cache
def filler() -> frozenset[str]:
    """The words that say nothing in a search, in several languages."""
    lines = files("case_library.retrieval").joinpath("filler.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def terms(text: str) -> list[str]:
    """Search terms of a text in order, repeated as often as they occur; longer text than ``MAX_TEXT`` is cut."""
    found: list[str] = []
    for token in _tokens(text):
        found.extend(_forms(token))
    return found


def surface_forms(text: str) -> dict[str, str]:
    """For each search term of a text a word that a person can read; the whole word where a part gave the term too."""
    words = _tokens(text)
    forms = {trim(token.lower().strip("_")): token.strip("_") for token in words}
    for token in words:
        for part in _parts(token):
            forms.setdefault(trim(part), part)
    return forms


def pieces(text: str) -> list[str]:
    """The trimmed parts of all words in order, fillers included, by which phrases are compared."""
    return [trim(part) for token in _tokens(text) for part in _parts(token)]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_folded(text[:MAX_TEXT]))


def _folded(text: str) -> str:
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def _forms(token: str) -> list[str]:
    whole = token.lower().strip("_")
    parts = _parts(token)
    forms = [whole] if len(parts) < 2 else [whole, *parts]
    return [trim(form) for form in forms if len(form) > 1 and not form.isdigit() and form not in filler()]


def _parts(token: str) -> list[str]:
    return [piece.lower() for part in token.split("_") for piece in _CAMEL.findall(part)]


def trim(word: str) -> str:
    """A word without its commonest English endings, so that ``reads`` and ``reading`` meet."""
    for ending in ("ing", "ed", "es", "s"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 4 and not stem.endswith("s"):
            return stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > 4 else word
