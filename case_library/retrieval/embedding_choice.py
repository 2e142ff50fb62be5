"""The choice of the embedding that the vector ranker works with, and what each one needs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from tools.errors import HermesError

if TYPE_CHECKING:
    from case_library.retrieval.hashed_embedding import Vector

Kind = Literal["hashed", "minilm", "endpoint"]


class EmbeddingError(HermesError):
    """The embedding that was chosen cannot be used now."""


class TextEmbedding(Protocol):
    """Texts to vectors of length 1."""

    def __call__(self, input: Sequence[str]) -> list[Vector]:
        """One vector per text, all of one size; raises ``EmbeddingError``."""


@dataclass(frozen=True)
class EmbeddingChoice:
    """An embedding; for an endpoint ``mask`` hides names, and private cases go there only with ``sends_private``."""

    kind: Kind = "hashed"
    folder: Path | None = None
    base_url: str = ""
    model: str = ""
    key: str | None = field(default=None, repr=False)
    mask: Callable[[str], str] | None = field(default=None, repr=False, compare=False)
    sends_private: bool = False

    @property
    def embeds_private(self) -> bool:
        """Return whether a team's own cases get a vector: always on this machine, at an endpoint only if allowed."""
        return self.kind != "endpoint" or self.sends_private


HASHED = EmbeddingChoice()
EMBEDDING_VERSION = "hashed-2"


def version(choice: EmbeddingChoice) -> str:
    """The name of the vectors that a choice gives, the content of its weights included; another name, another index."""
    if choice.kind == "hashed":
        return EMBEDDING_VERSION
    if choice.kind == "endpoint":
        return f"endpoint-1 {choice.base_url} {choice.model} {choice.sends_private} {choice.mask is not None}"
    from case_library.retrieval.external_embeddings import weight_files

    digest = hashlib.sha256()
    for path in weight_files(choice.folder):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"minilm-1 {digest.hexdigest()}"


def stored_weights(choice: EmbeddingChoice, texts: Sequence[str]) -> Mapping[str, list[float]]:
    """The weights that an index of these texts has to store to open the embedding of a choice."""
    if choice.kind != "hashed":
        return {}
    from case_library.retrieval.hashed_embedding import HashedTextEmbedding, text_counts

    return {"idf": HashedTextEmbedding.fit(text_counts(texts)).stored()}


def open_embedding(choice: EmbeddingChoice, stored: Mapping[str, list[float]]) -> TextEmbedding:
    """The embedding of a choice, for the index that stored these weights; raises ``EmbeddingError``."""
    if choice.kind == "hashed":
        from case_library.retrieval.hashed_embedding import HashedTextEmbedding

        return HashedTextEmbedding(stored["idf"])
    from case_library.retrieval.external_embeddings import EndpointEmbedding, MiniLmEmbedding

    return MiniLmEmbedding(choice.folder) if choice.kind == "minilm" else EndpointEmbedding(choice)
