"""Text to vectors without any downloaded weights: hashed words and character n-grams, tf-idf weighted."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from case_library.retrieval.words import WORDS_KEPT, lexicon, terms

DIMENSION = 2048
NGRAM_SIZES = (4, 5)
NGRAM_WEIGHT = 0.35
NONE = np.zeros(0, dtype=np.int64)
Vector = NDArray[np.float32]


class HashedTextEmbedding:
    """Words and n-grams hashed into buckets; ``idf`` has a weight per bucket, fitted on the cases of one index."""

    def __init__(self, idf: Sequence[float]) -> None:
        if len(idf) != DIMENSION:
            raise ValueError(f"idf must have {DIMENSION} weights, not {len(idf)}")
        self.idf: Vector = np.asarray(idf, dtype=np.float32)

    @classmethod
    def fit(cls, counts: NDArray[np.float64]) -> HashedTextEmbedding:
        """Weights from how many texts use each bucket; ``counts`` as ``text_counts`` gives them."""
        used = (counts > 0).sum(axis=0)
        return cls(np.round(np.log((1 + len(counts)) / (1 + used)) + 0.1, 4).tolist())

    def __call__(self, input: Sequence[str]) -> list[Vector]:
        """One vector of length 1 and shape ``(DIMENSION,)`` per text."""
        return list(self.weigh(text_counts(input)))

    def weigh(self, counts: NDArray[np.float64]) -> Vector:
        """The vectors of counts, shape ``(texts, DIMENSION)``; a text without features is near to none and to all."""
        return unit_vectors(np.log1p(counts).astype(np.float32) * self.idf)

    def stored(self) -> list[float]:
        """The weights as they are stored, from which the same embedding is built again."""
        return [round(float(weight), 4) for weight in self.idf]


def text_counts(texts: Sequence[str]) -> NDArray[np.float64]:
    """Counts of the words, n-grams and concepts of each text in each bucket, shape ``(texts, DIMENSION)``."""
    return _counts(tuple(texts))


@lru_cache(maxsize=1)  # the weights of an index are fitted on the counts that they then weigh
def _counts(texts: tuple[str, ...]) -> NDArray[np.float64]:
    counts = np.zeros((len(texts), DIMENSION))
    for row, text in zip(counts, texts, strict=True):
        words = terms(text)
        whole = np.bincount([*map(_bucket, words), *map(_bucket, lexicon().concepts(text))], minlength=DIMENSION)
        ngrams = np.bincount(np.concatenate([NONE, *map(_ngrams, words)]), minlength=DIMENSION)
        row[:] = whole + NGRAM_WEIGHT * ngrams
    counts.setflags(write=False)
    return counts


@lru_cache(WORDS_KEPT)
def _bucket(word: str) -> int:
    return zlib.crc32(b"w:" + word.encode()) % DIMENSION


@lru_cache(WORDS_KEPT)
def _ngrams(word: str) -> NDArray[np.int64]:
    """The buckets of the n-grams of a word with its ends marked."""
    padded = f"<{word}>"
    ngrams = (padded[start : start + size] for size in NGRAM_SIZES for start in range(len(padded) - size + 1))
    return np.array([zlib.crc32(b"n:" + ngram.encode()) % DIMENSION for ngram in ngrams], dtype=np.int64)


def unit_vectors(rows: Vector) -> Vector:
    """The rows, shape ``(texts, dimension)``, scaled to length 1; an empty one is even in all directions."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    even = np.float32(rows.shape[1] ** -0.5)
    return np.where(lengths > 0, rows / np.maximum(lengths, np.finfo(np.float32).tiny), even)
