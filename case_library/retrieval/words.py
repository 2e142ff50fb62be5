"""Text to search terms: identifiers are split, endings trimmed, accents folded, filler words dropped."""

from __future__ import annotations

import re
import unicodedata

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
    "speed train training "
    # German, French and Spanish questions need the same.
    "aber alle als auch auf aus bei bleibt das dass dauert dem den der des die durch ein eine einem einen einer er "
    "es fur haben hat hilft ich im ist kann langsam langsamer mein meine mich mit nach nicht nur oder sehr sich sie "
    "sind statt und viel viele vom von wann warum was wegen weil wenn wie wird wir zu zum zur zwischen "
    "au aux avec ce cette chaque dans de du elle en entre est et il je la le les lent lente ma mais mes mon ne nos "
    "notre ou par pas pendant plus pour pourquoi qu quand que qui sa se ses son sont sur trop un une vers "
    "a al como con cual cuando de del donde e el ella en entre es esta este la las lento lenta lo los mi mis muy no "
    "nuestro para pero por porque que se ser si sin son su sus todo todos tan un una uno y"
)
_FILLER = frozenset(_FILLER_TEXT.split())
MAX_TEXT = 20_000


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
    """The trimmed parts of all words in order, fillers kept: what phrases are compared by."""
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
    return [trim(form) for form in forms if len(form) > 1 and not form.isdigit() and form not in _FILLER]


def _parts(token: str) -> list[str]:
    return [piece.lower() for part in token.split("_") for piece in _CAMEL.findall(part)]


def trim(word: str) -> str:
    """A word without its commonest English endings, so that ``reads`` and ``reading`` meet."""
    for ending in ("ing", "ed", "es", "s"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 4 and not stem.endswith("s"):
            return stem.removesuffix("e")
    return word.removesuffix("e") if len(word) > 4 else word
