"""Vectors from an endpoint that speaks OpenAI's embeddings interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from case_library.retrieval.embedding_choice import EmbeddingChoice, EmbeddingError
from case_library.retrieval.hashed_embedding import Vector, unit_vectors

if TYPE_CHECKING:
    from openai import OpenAI

BATCH = 64
MAX_LETTERS = 8000  # of one text; what is longer is cut
TIMEOUT_S = 20.0
RETRIES = 1


class EndpointEmbedding:
    """Asks ``choice.base_url`` for the vectors of ``choice.model``, many texts at once, names masked before."""

    close_angle = 0.6  # not calibrated on questions, unlike that of the hashed embedding

    def __init__(self, choice: EmbeddingChoice) -> None:
        self._choice = choice
        self._client: OpenAI | None = None

    def __call__(self, input: Sequence[str]) -> list[Vector]:
        """One vector of length 1 per text; raises ``EmbeddingError`` if the endpoint does not give them."""
        found: list[Vector] = []
        for start in range(0, len(input), BATCH):
            found.extend(self._ask([self._outward(text) for text in input[start : start + BATCH]]))
        return found

    def _outward(self, text: str) -> str:
        mask = self._choice.mask
        return (mask(text) if mask else text)[:MAX_LETTERS] or " "

    def _ask(self, texts: list[str]) -> Vector:
        from openai import OpenAIError

        where = f"The embedding endpoint {self._choice.base_url}"
        try:
            answer = self._opened().embeddings.create(model=self._choice.model, input=texts, encoding_format="float")
            rows = [entry.embedding for entry in sorted(answer.data, key=lambda entry: entry.index)]
            vectors = np.array(rows, dtype=np.float32)
        except OpenAIError as error:
            raise EmbeddingError(f"{where} gave no vectors ({type(error).__name__}); check the settings.") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise EmbeddingError(f"{where} gave an answer of another form; check that it serves embeddings.") from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise EmbeddingError(f"{where} gave {vectors.shape} numbers for {len(texts)} texts; check the model.")
        return unit_vectors(vectors)

    def _opened(self) -> OpenAI:
        if self._client is None:
            from openai import OpenAI

            choice = self._choice
            self._client = OpenAI(
                base_url=choice.base_url, api_key=choice.key or "none", timeout=TIMEOUT_S, max_retries=RETRIES
            )
        return self._client
