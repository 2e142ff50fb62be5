"""The vectors of the cases in a Chroma folder that belongs to this process alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from case_library.retrieval.embedding_choice import EmbeddingError
from case_library.stand_ins import Functions, stand_ins
from tools.errors import HermesError

if TYPE_CHECKING:
    from chromadb.api.client import Client

    from case_library.retrieval.embedding_choice import TextEmbedding

COLLECTION = "cases"
BATCH = 1000
# What Chroma exports its telemetry with, which stays off, its clients that await, its embedding functions, of which
# none is used, with the check of their settings, and the command that httpx brings along.
NEVER_CALLED = (
    *("opentelemetry.exporter", "opentelemetry.sdk", "jsonschema", "httpx._main"),
    *("chromadb.api.async_api", "chromadb.api.async_client", "chromadb.utils.embedding_functions"),
)


def _as_it_is(function: object) -> object:
    return function


# Chroma's check that its methods override others of the same form, done each time that it is imported.
UNCHECKED: Functions = {"overrides": {"override": _as_it_is, "overrides": _as_it_is, "EnforceOverrides": object}}


class CaseIndexError(HermesError):
    """The case index cannot be built or opened."""


class ChromaStore:
    """An opened store; ``close`` releases its files. Raises ``CaseIndexError`` if Chroma refuses it."""

    def __init__(self, folder: Path, embedding: TextEmbedding) -> None:
        self._embedding = embedding
        errors = chroma().errors
        try:
            self._client = _client(folder)
            # Vectors are made here and not by Chroma, whose own embedding would be downloaded.
            self._collection = self._client.get_collection(COLLECTION, embedding_function=None)
        except (errors.ChromaError, ValueError) as error:
            raise CaseIndexError(f"Chroma cannot open the case index ({error}); delete the cache folder.") from error

    def nearest(self, text: str, limit: int) -> dict[str, float]:
        """Cosine similarity (-1 to 1) of the nearest cases by id; raises ``EmbeddingError`` if there is no vector."""
        try:
            count = min(limit, self._collection.count())
            if not count:
                return {}
            vectors: Any = self._embedding([text])
            found = self._collection.query(query_embeddings=vectors, n_results=count, include=["distances"])
        except chroma().errors.ChromaError as error:
            raise EmbeddingError(f"Chroma cannot search the case index ({error}).") from error
        distances = found["distances"] or [[]]
        return {name: 1.0 - distance for name, distance in zip(found["ids"][0], distances[0], strict=True)}

    def close(self) -> None:
        """Release the files; a second call does nothing."""
        self._client.close()


def chroma() -> ModuleType:
    """Chroma, imported without what it never calls here."""
    with stand_ins(*NEVER_CALLED, *UNCHECKED, known=UNCHECKED):
        import chromadb
        import chromadb.api.rust  # it would be imported with the first client, and overrides with it
    return chromadb


def build_store(folder: Path, embedding: TextEmbedding, ids: Sequence[str], texts: Sequence[str]) -> None:
    """Write a store of the texts into an empty folder; raises ``CaseIndexError`` if Chroma fails."""
    try:
        client = _client(folder)
        try:
            configuration: Any = {"hnsw": {"space": "cosine"}}
            collection = client.create_collection(COLLECTION, embedding_function=None, configuration=configuration)
            for start in range(0, len(ids), BATCH):
                chosen = slice(start, start + BATCH)
                collection.add(ids=list(ids[chosen]), embeddings=cast("Any", embedding(texts[chosen])))
        finally:
            client.close()
    except chroma().errors.ChromaError as error:
        raise CaseIndexError(f"Chroma cannot build the case index ({error}); try again.") from error


def _client(folder: Path) -> Client:
    chromadb = chroma()

    # A `.env` in the working folder belongs to somebody else's program: it must not configure ours.
    no_file: dict[str, Any] = {"_env_file": None}
    settings = chromadb.config.Settings(
        **no_file,
        anonymized_telemetry=False,
        chroma_otel_collection_endpoint="",
        chroma_otel_granularity="none",
        chroma_api_impl="chromadb.api.rust.RustBindingsAPI",
    )
    return cast("Client", chromadb.PersistentClient(str(folder), settings))
