"""Text to search terms: identifiers are split, endings trimmed, filler words dropped."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9_]*|\d+[A-Za-z][A-Za-z0-9]*")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[A-Za-z]*")
_FILLER_TEXT = (
    "a about after all also am an and any are as at be because been before but by can could did do does doing done "
    "each every for from get give go had has have he her here him his how i if in into is it its just let like make "
    "many me more most much my no not now of off on one only or other our out over own please same she should so "
    "some such tell than that the their them then there these they this those to too two under until up us very want "
    "was we well were what when where which while who why will with would you your "
    # Every question here is about these, so they tell no case from another.
    "bottleneck bottlenecks fast faster help issue issues performance problem problems slow slower slowest slowdown "
    "speed train training"
)
_FILLER = frozenset(_FILLER_TEXT.split())
MAX_TEXT = 20_000


def terms(text: str) -> list[str]:
    """Search terms of a text in order, repeated as often as they occur; longer text than ``MAX_TEXT`` is cut."""
    found: list[str] = []
    for token in _TOKEN.findall(text[:MAX_TEXT]):
        found.extend(_forms(token))
    return found


def surface_forms(text: str) -> dict[str, str]:
    """For each search term of a text a word that a person can read; the whole word where a part gave the term too."""
    words = [token for token in _TOKEN.findall(text[:MAX_TEXT])]
    forms = {trim(token.lower().strip("_")): token.strip("_") for token in words}
    for token in words:
        for part in _parts(token):
            forms.setdefault(trim(part), part)
    return forms


def _forms(token: str) -> list[str]:
    whole = token.lower().strip("_")
    pieces = _parts(token)
    forms = [whole] if len(pieces) < 2 else [whole, *pieces]
    return [trim(form) for form in forms if len(form) > 1 and form not in _FILLER]


def _parts(token: str) -> list[str]:
    return [piece.lower() for part in token.split("_") for piece in _CAMEL.findall(part)]


def trim(word: str) -> str:
    """A word without its commonest English endings, so that ``reads`` and ``reading`` meet."""
    for ending in ("ing", "ed", "es", "s"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 4 and not stem.endswith("s"):
            return stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > 4 else word
