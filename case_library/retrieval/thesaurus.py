"""The thesaurus of the field: words that mean the same, and which of them together mean a concept, in any order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

WINDOW = 10  # words that the parts of a sense may lie apart, about one clause
UNSPACED_WINDOW = 30  # letters, in scripts without spaces between words
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")  # letters of such scripts
CLASS = "@"  # begins the name of a class
STEM = "*"  # ends a word that stands for all that begin like it
WORDS_KEPT = 1 << 14  # words whose classes are kept, since most words occur again and again
FAR = 1 << 20  # places of unspaced phrases count from here, so that they never meet those of words

Pieces = Callable[[str], list[str]]  # a text to the trimmed parts of its words


@dataclass(frozen=True)
class Sense:
    """What means a concept: ``elements`` are names of classes, all of which have to be there."""

    concept: str
    elements: tuple[str, ...]
    classes: frozenset[str]


@dataclass(frozen=True)
class Thesaurus:
    """Words, stems and phrases by the class they belong to, and senses by their first element.

    ``phrases`` is by the first part of a phrase and has all its parts; ``unspaced`` is by the phrase itself.
    ``causes`` names for each cause of the taxonomy the concepts that speak for it.
    """

    words: Mapping[str, tuple[str, ...]]
    stems: Mapping[str, tuple[str, ...]]
    phrases: Mapping[str, tuple[tuple[tuple[str, ...], str], ...]]
    unspaced: Mapping[str, tuple[str, ...]]
    senses: Mapping[str, tuple[Sense, ...]]
    causes: Mapping[str, tuple[str, ...]]
    _classes_of: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    def concepts(self, text: str, parts: Sequence[str]) -> dict[str, str]:
        """The concepts of a text given also in its parts, each with the words that mean it."""
        places = self._places(text, parts)
        found: dict[str, str] = {}
        there = places.keys()
        for name in [name for name in places if name in self.senses]:
            for sense in self.senses[name]:
                if sense.concept in found or not there >= sense.classes:
                    continue
                chosen = _near([places[element] for element in sense.elements])
                if chosen:
                    words = (places[element][place] for element, place in zip(sense.elements, chosen, strict=True))
                    found[sense.concept] = " … ".join(words)
        return found

    def _places(self, text: str, parts: Sequence[str]) -> dict[str, dict[int, str]]:
        """By class the places in the text where it occurs, with the word there."""
        places: defaultdict[str, dict[int, str]] = defaultdict(dict)
        for place, part in enumerate(parts):
            for name in self._classes(part):
                places[name][place] = part
            for phrase, name in self.phrases.get(part, ()):
                if _begins(parts[place : place + len(phrase)], phrase):
                    places[name][place] = " ".join(parts[place : place + len(phrase)])
        if UNSPACED.search(text):
            for written, names in self.unspaced.items():
                at = text.find(written)
                for name in names if at >= 0 else ():
                    places[name][FAR + at] = written
        return places

    def _classes(self, part: str) -> tuple[str, ...]:
        """The classes of a word by itself or by how it begins."""
        known = self._classes_of.get(part)
        if known is None:
            beginnings = (part[:length] for length in range(3, len(part) + 1))
            known = (*self.words.get(part, ()), *(name for stem in beginnings for name in self.stems.get(stem, ())))
            if len(self._classes_of) < WORDS_KEPT:
                self._classes_of[part] = known
        return known


def _begins(parts: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether the parts are those of a phrase, of which the last may be a stem."""
    if len(parts) < len(phrase) or tuple(parts[:-1]) != tuple(phrase[:-1]):
        return False
    last = phrase[-1]
    return parts[-1].startswith(last.removesuffix(STEM)) if last.endswith(STEM) else parts[-1] == last


def _near(elements: Sequence[Mapping[int, str]]) -> tuple[int, ...]:
    """One place of each element, all different and near to that of the first; empty if there are none."""
    for first in elements[0]:
        chosen = [first]
        for places in elements[1:]:
            near = (place for place in places if place not in chosen and _close(first, place))
            if (place := next(near, -1)) < 0:
                break
            chosen.append(place)
        else:
            return tuple(chosen)
    return ()


def _close(one: int, other: int) -> bool:
    if (one < FAR) != (other < FAR):  # a word in a text of another script: their distance says nothing
        return True
    return abs(one - other) <= (WINDOW if one < FAR else UNSPACED_WINDOW)


def parse_thesaurus(text: str, pieces: Pieces) -> Thesaurus:
    """Return a thesaurus from lines ``@class = word | word`` and ``concept > cause = a + b | c``.

    Raises ``ValueError`` for a class that no line defines.
    """
    classes: dict[str, list[str]] = {}
    senses: defaultdict[str, list[Sense]] = defaultdict(list)
    causes: defaultdict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        head, _, body = line.partition("=")
        if not body or line.startswith("#"):
            continue
        alternatives = [each.strip() for each in body.lower().split("|")]
        if head.startswith(CLASS):
            classes[head.strip()] = alternatives
            continue
        concept, _, cause = (part.strip() for part in head.partition(">"))
        causes[cause].append(concept)
        for written in alternatives:
            elements = tuple(element.strip() for element in written.split("+"))
            senses[elements[0]].append(Sense(concept, elements, frozenset(elements)))
            classes |= {element: [element] for element in elements if not element.startswith(CLASS)}
    unknown = sorted({name for rows in senses.values() for row in rows for name in row.elements} - set(classes))
    if unknown:
        raise ValueError(f"classes {unknown} are used and not defined")
    by_kind = _by_kind(classes, pieces)
    grouped = {name: tuple(rows) for name, rows in senses.items()}
    return Thesaurus(*by_kind, grouped, {cause: tuple(rows) for cause, rows in causes.items()})


_ByName = dict[str, tuple[str, ...]]


def _by_kind(
    classes: Mapping[str, Sequence[str]], pieces: Pieces
) -> tuple[_ByName, _ByName, dict[str, tuple[tuple[tuple[str, ...], str], ...]], _ByName]:
    """The words, stems, phrases and unspaced phrases of the classes, as ``Thesaurus`` has them."""
    words, stems, unspaced = (
        defaultdict[str, list[str]](list),
        defaultdict[str, list[str]](list),
        defaultdict[str, list[str]](list),
    )
    phrases: defaultdict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
    for name, members in classes.items():
        for member in members:
            parts = tuple(pieces(member))
            if UNSPACED.search(member):
                unspaced[member].append(name)
            elif len(parts) == 1:
                (stems if member.endswith(STEM) else words)[parts[0]].append(name)
            elif parts:
                phrases[parts[0]].append(((*parts[:-1], parts[-1] + STEM * member.endswith(STEM)), name))
    one, two, three = (
        {key: tuple(dict.fromkeys(rows)) for key, rows in kind.items()} for kind in (words, stems, unspaced)
    )
    return one, two, {first: tuple(rows) for first, rows in phrases.items()}, three
