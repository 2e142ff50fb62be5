"""Text to vectors without any downloaded weights: hashed words and character n-grams, tf-idf weighted."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        used = sum((_counts(text) > 0 for text in texts), start=np.zeros(DIMENSION, dtype=np.int64))
        return cls(np.round(np.log((1 + len(texts)) / (1 + used)) + 0.1, 4).tolist())

    def __call__(self, input: Sequence[str]) -> list[Vector]:
        """One vector of length 1 and shape ``(DIMENSION,)`` per text."""
        return [self._embed(text) for text in input]

    def embed_query(self, input: Sequence[str]) -> list[Vector]:
        """The same as for documents."""
        return self(input)

    def _embed(self, text: str) -> Vector:
        weighted = np.log1p(_counts(text)).astype(np.float32) * self.idf
        length = float(np.linalg.norm(weighted))
        return weighted / length if length > 0 else np.full(DIMENSION, DIMENSION**-0.5, dtype=np.float32)

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


def _counts(text: str) -> NDArray[np.float64]:
    features: Counter[str] = Counter()
    for word in terms(text):
        features["w:" + word] += 1
        padded = f"<{word}>"
        for size in NGRAM_SIZES:
            features.update("n:" + padded[start : start + size] for start in range(len(padded) - size + 1))
    counts = np.zeros(DIMENSION)
    for feature, count in features.items():
        counts[zlib.crc32(feature.encode()) % DIMENSION] += count * (1.0 if feature[0] == "w" else NGRAM_WEIGHT)
    return counts
