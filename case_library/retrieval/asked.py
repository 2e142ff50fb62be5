"""The causes that a question is probably about, read from what people ask: a ridge regression on ``asked.txt``."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from case_library.retrieval.thesaurus import UNSPACED
from case_library.retrieval.words import MAX_TEXT, lexicon, terms

NO_CAUSE = "none"  # the section of questions that no case answers
RIDGE = 1.0  # added to the diagonal for each line, less for one of a cause with few lines
LETTERS = 5  # of the n-grams by which misspelt and compound words meet
NGRAM_WEIGHT = 0.35
UNSPACED_WEIGHT = 0.6  # of one or two letters in scripts without spaces
SEEN = 3  # lines that an n-gram has to be in
NEVER_SEEN = 0.5  # lines that a word of no line counts as being in, for its rarity
Feature = tuple[str, float]  # a name, and the weight of its kind


@dataclass(frozen=True)
class Reading:
    """How well a question fits each cause of ``causes``, up to about 1.

    ``scope`` is below 0 if no case answers it; ``familiar`` is the share of it, 0 to 1, that some line has.
    """

    causes: tuple[str, ...]
    fit: NDArray[np.float64]
    scope: float
    familiar: float


@dataclass(frozen=True)
class CauseReader:
    """Weights of shape ``(features, causes + 1)``, the last for the scope, and the rarity of each feature.

    ``rarest`` is the rarity of what no line has.
    """

    causes: tuple[str, ...]
    rarity: Mapping[str, float]
    rarest: float
    weights: NDArray[np.float32]

    @classmethod
    def fit(cls, asked: Mapping[str, Sequence[str]]) -> CauseReader:
        """Return the reader of lines by cause: ridge regression in its dual form (Hoerl and Kennard 1970)."""
        causes = tuple(sorted(asked.keys() - {NO_CAUSE}))
        sections = (*causes, NO_CAUSE)
        rows = [(dict(features(line)), place) for place, name in enumerate(sections) for line in asked.get(name, ())]
        of = np.array([place for _, place in rows], dtype=np.int64)
        seen = Counter(name for line, _ in rows for name in line)
        rarity = {name: _rarity(len(rows), n) for name, n in seen.items() if n >= SEEN or not name.startswith("n:")}
        reader = cls(causes, rarity, _rarity(len(rows), NEVER_SEEN), np.zeros((0, 0), dtype=np.float32))
        having: defaultdict[str, dict[int, float]] = defaultdict(dict)  # by feature the lines that have it
        for row, (line, _) in enumerate(rows):
            for name, value in reader._weighed(line).items():
                having[name][row] = value
        wanted = np.eye(len(sections), dtype=np.float32)[of]
        wanted[:, -1] = 1 - 2 * wanted[:, -1]
        share = np.bincount(of, minlength=len(sections)) * len(sections) / max(len(rows), 1)
        kernel = np.diag(RIDGE * np.sqrt(share)[of]).astype(np.float32)
        columns = [(np.array([*having[name]]), np.array([*having[name].values()], np.float32)) for name in rarity]
        for place, values in columns:
            kernel[place[:, None], place] += np.outer(values, values)
        dual = np.linalg.solve(kernel, wanted)
        return replace(reader, weights=np.array([values @ dual[place] for place, values in columns]))

    def read(self, text: str) -> Reading:
        """Return how well a text fits each cause; what no line has makes everything fit less."""
        weighed = self._weighed(dict(features(text)))
        rows = [self._place_of[name] for name in weighed]
        fit = np.array(list(weighed.values())) @ self.weights[rows] if rows else np.zeros(len(self.causes) + 1)
        familiar = sum(value * value for value in weighed.values())
        return Reading(self.causes, fit[:-1].astype(np.float64), float(fit[-1]), familiar)

    def _weighed(self, line: Mapping[str, float]) -> dict[str, float]:
        """The known features of a line as a part of a vector of length 1, to which the unknown ones add length."""
        length = math.hypot(*(kind * self.rarity.get(name, self.rarest) for name, kind in line.items())) or 1.0
        return {name: kind * self.rarity[name] / length for name, kind in line.items() if name in self.rarity}

    @cached_property
    def _place_of(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.rarity)}


def _rarity(size: int, seen: float) -> float:
    return math.log((1 + size) / (1 + seen))


def features(text: str) -> Iterator[Feature]:
    """Yield the words, n-grams, concepts and unspaced letters of a text, each with the weight of its kind."""
    for word in terms(text):
        yield f"w:{word}", 1.0
        ends = f"<{word}>"
        for start in range(len(ends) - LETTERS + 1):
            yield f"n:{ends[start : start + LETTERS]}", NGRAM_WEIGHT
    for concept in lexicon().concepts(text):
        yield f"c:{concept}", 1.0
    letters = text[:MAX_TEXT]
    for start, letter in enumerate(letters):
        if UNSPACED.match(letter):
            yield f"u:{letter}", UNSPACED_WEIGHT
            if UNSPACED.match(letters[start + 1 : start + 2]):
                yield f"u:{letters[start : start + 2]}", UNSPACED_WEIGHT


def parse_asked(text: str) -> dict[str, list[str]]:
    """Return the lines under each ``[cause]``; raises ``ValueError`` for a line before the first."""
    asked: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            lines = asked.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            if lines is None:
                raise ValueError(f"{line!r} stands under no cause")
            lines.append(line)
    return asked


def asked_lines() -> dict[str, list[str]]:
    """Return what people ask by cause, as it comes with the library."""
    return parse_asked(files("case_library.retrieval").joinpath("asked.txt").read_text(encoding="utf-8"))
