"""The embedding of a choice: the hashed one of ours, weights in a folder, or an endpoint; each is imported late."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from case_library.embedding_choice import EmbeddingChoice, TextEmbedding

EMBEDDING_VERSION = "hashed-2"


def version(choice: EmbeddingChoice) -> str:
    """Names the vectors that a choice gives, the content of its weights included; another name, another index."""
    match choice.kind:
        case "hashed":
            return EMBEDDING_VERSION
        case "minilm":
            from case_library.minilm import weight_files

            digest = hashlib.sha256()
            for path in weight_files(choice.folder):
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
            return f"minilm-1 {digest.hexdigest()}"
        case "endpoint":
            return f"endpoint-1 {choice.base_url} {choice.model} {choice.sends_private} {choice.mask is not None}"


def fitted(choice: EmbeddingChoice, texts: Sequence[str]) -> tuple[TextEmbedding, Mapping[str, object]]:
    """The embedding for an index of these texts, and what has to be stored to open it again."""
    if choice.kind == "hashed":
        from case_library.embedding import HashedTextEmbedding

        hashed = HashedTextEmbedding.fit(texts)
        return hashed, hashed.get_config()
    return _ready(choice), {}


def reopened(choice: EmbeddingChoice, stored: Mapping[str, list[float]]) -> TextEmbedding:
    """The embedding of a stored index."""
    if choice.kind == "hashed":
        from case_library.embedding import HashedTextEmbedding

        return HashedTextEmbedding.build_from_config(stored)
    return _ready(choice)


def _ready(choice: EmbeddingChoice) -> TextEmbedding:
    if choice.kind == "minilm":
        from case_library.minilm import MiniLmEmbedding

        return MiniLmEmbedding(choice.folder)
    from case_library.endpoint_embedding import EndpointEmbedding

    return EndpointEmbedding(choice)
