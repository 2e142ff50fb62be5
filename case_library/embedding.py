"""Text to vectors without any downloaded weights: hashed words and character n-grams, tf-idf weighted."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from case_library.lexicon import lexicon
from case_library.words import terms

DIMENSION = 2048
NGRAM_SIZES = (4, 5)
NGRAM_WEIGHT = 0.35
Vector = NDArray[np.float32]


class HashedTextEmbedding:
    """A Chroma embedding function; equal text gives equal vectors on every machine.

    ``idf`` holds one weight per bucket, shape ``(DIMENSION,)``, fitted on the cases of one index.
    """

    def __init__(self, idf: Sequence[float]) -> None:
        if len(idf) != DIMENSION:
            raise ValueError(f"idf must have {DIMENSION} weights, not {len(idf)}")
        self.idf: Vector = np.asarray(idf, dtype=np.float32)

    @classmethod
    def fit(cls, texts: Sequence[str]) -> HashedTextEmbedding:
        """Weights from how many of the texts use each bucket."""
        return cls.fit_counts(np.array([bucket_counts(text) for text in texts]))

    @classmethod
    def fit_counts(cls, counts: NDArray[np.float64]) -> HashedTextEmbedding:
        """The same from what ``bucket_counts`` gives for each text, shape ``(texts, DIMENSION)``."""
        used = (counts > 0).sum(axis=0)
        return cls(np.round(np.log((1 + len(counts)) / (1 + used)) + 0.1, 4).tolist())

    def __call__(self, input: Sequence[str]) -> list[Vector]:
        """One vector of length 1 and shape ``(DIMENSION,)`` per text."""
        return list(self.weigh(np.array([bucket_counts(text) for text in input])))

    def embed_query(self, input: Sequence[str]) -> list[Vector]:
        """The same as for documents."""
        return self(input)

    def weigh(self, counts: NDArray[np.float64]) -> Vector:
        """The vectors of counts, shape ``(texts, DIMENSION)``; a text without features is near to none and to all."""
        weighted = np.log1p(counts).astype(np.float32) * self.idf
        lengths = np.linalg.norm(weighted, axis=1, keepdims=True)
        even = np.float32(DIMENSION**-0.5)
        return np.where(lengths > 0, weighted / np.maximum(lengths, np.finfo(np.float32).tiny), even)

    @staticmethod
    def name() -> str:
        """The name Chroma stores with a collection."""
        return "hermes_hashed_text"

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> HashedTextEmbedding:
        """The function that ``get_config`` described."""
        return HashedTextEmbedding(config["idf"])

    def get_config(self) -> dict[str, Any]:
        """What is needed to build the same function again."""
        return {"idf": [round(float(weight), 4) for weight in self.idf]}

    @staticmethod
    def validate_config(config: dict[str, Any]) -> None:
        """Raises ``ValueError`` if the configuration is not one of ours."""
        HashedTextEmbedding.build_from_config(config)

    def validate_config_update(self, old_config: dict[str, Any], new_config: dict[str, Any]) -> None:
        """An index is rebuilt rather than changed, so any change is refused."""
        if old_config != new_config:
            raise ValueError("the embedding of an index cannot be changed; build a new index")

    def default_space(self) -> str:
        """Vectors have length 1 and are compared by angle."""
        return "cosine"

    def supported_spaces(self) -> list[str]:
        """Distances that make sense for these vectors."""
        return ["cosine"]

    def is_legacy(self) -> bool:
        """Chroma may store the configuration."""
        return False


def bucket_counts(text: str) -> NDArray[np.float64]:
    """How often the words, n-grams and concepts of a text fall into each bucket, shape ``(DIMENSION,)``."""
    features: Counter[str] = Counter()
    for word in terms(text):
        features["w:" + word] += 1
        padded = f"<{word}>"
        for size in NGRAM_SIZES:
            features.update("n:" + padded[start : start + size] for start in range(len(padded) - size + 1))
    features.update("w:" + concept for concept in lexicon().concepts(text))
    counts = np.zeros(DIMENSION)
    for feature, count in features.items():
        counts[zlib.crc32(feature.encode()) % DIMENSION] += count * (1.0 if feature[0] == "w" else NGRAM_WEIGHT)
    return counts
