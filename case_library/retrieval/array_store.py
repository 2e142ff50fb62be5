"""The vectors of the cases in one array, compared with every query exactly.

For the hashed embedding, whose vectors are made here within milliseconds: 300 cases are one product of 600,000 numbers,
while to import Chroma takes half a second. What an embedding model gave stays in Chroma (``chroma_store``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from case_library.retrieval.embedding_choice import CaseIndexError
from tools.documents import parse_json

if TYPE_CHECKING:
    from case_library.retrieval.embedding_choice import TextEmbedding

VECTORS = "vectors.npy"
IDS = "ids.json"


class ArrayStore:
    """An opened store. Raises ``CaseIndexError`` if its files are no vectors of that many cases."""

    def __init__(self, folder: Path, embedding: TextEmbedding) -> None:
        self._embedding = embedding
        try:
            self._ids: list[str] = parse_json((folder / IDS).read_text(encoding="utf-8"))
            self._vectors = np.load(folder / VECTORS, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise CaseIndexError(f"The case index cannot be opened ({error}); delete the cache folder.") from error
        if self._vectors.ndim != 2 or len(self._vectors) != len(self._ids):
            raise CaseIndexError("The case index does not fit together; delete the cache folder.")

    def nearest(self, text: str, limit: int) -> dict[str, float]:
        """Cosine similarity (-1 to 1) of the nearest cases by id; vectors have length 1."""
        [vector] = self._embedding([text])
        cosines = self._vectors @ vector
        chosen = np.argsort(-cosines, kind="stable")[:limit]
        return {self._ids[row]: float(cosines[row]) for row in chosen.tolist()}

    def close(self) -> None:
        """Nothing is held open."""


def write_vectors(folder: Path, embedding: TextEmbedding, ids: Sequence[str], texts: Sequence[str]) -> None:
    """Write a store of the texts into an empty folder."""
    vectors = np.array(embedding(texts), dtype=np.float32) if texts else np.zeros((0, 0), dtype=np.float32)
    np.save(folder / VECTORS, vectors, allow_pickle=False)
    (folder / IDS).write_text(json.dumps(list(ids)), encoding="utf-8")
