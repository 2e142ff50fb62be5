"""Recall of similar past cases by words, by vectors and by the signature of the findings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from case_library.library import BUNDLED_CASES, CaseError, parse_case
from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice, EmbeddingError
from case_library.retrieval.query import CaseHit, CaseQuery, Recall

if TYPE_CHECKING:
    from case_library.retrieval.snapshot import Snapshot
    from case_library.schema import Case

__all__ = ["CaseHit", "CaseIndex", "CaseQuery", "Recall"]


class CaseIndex:
    """The cases of one folder, ready to be searched; use ``open`` and, when done, ``close``.

    ``notes`` says what happened to the cache and the embedding, if anything did, on opening or later.
    ``private_ids`` are the cases of the team.
    """

    def __init__(self, snapshot: Snapshot, choice: EmbeddingChoice, note: str = "") -> None:
        from case_library.retrieval.chroma_store import ChromaStore
        from case_library.retrieval.embedding_choice import open_embedding
        from case_library.retrieval.ranker import CaseRanker
        from case_library.retrieval.snapshot import EMBEDDING, STORE

        embedding = open_embedding(choice, json.loads((snapshot.folder / EMBEDDING).read_text(encoding="utf-8")))
        cards = snapshot.cards()
        self.notes = (*snapshot.notes, note) if note else snapshot.notes
        self.private_ids = frozenset(card.id for card in cards if card.private)
        self._snapshot = snapshot
        self._files: dict[str, Path] = {}
        for path in snapshot.contents:  # the public ones first: a private one of the same id is left out
            self._files.setdefault(path.stem, path)
        self._store = ChromaStore(snapshot.folder / STORE, embedding)
        self._ranker = CaseRanker(cards, self._nearest, close_angle=embedding.close_angle)

    @classmethod
    def open(
        cls,
        cases_folder: Path = BUNDLED_CASES,
        cache_dir: Path | None = None,
        private_folder: Path | None = None,
        embedding: EmbeddingChoice = HASHED,
    ) -> Self:
        """Open the index of a folder of cases and of a team's private ones.

        Without ``cache_dir`` it is built for this process alone. ``notes`` name private files that were left out, and
        say so if the embedding cannot be used and the hashed one stands in for it.
        Raises ``CaseError`` if a case file is not right, ``CaseIndexError`` if Chroma fails.
        """
        from case_library.retrieval.snapshot import take_snapshot

        try:
            return cls(take_snapshot(cases_folder, cache_dir, embedding, private_folder), embedding)
        except EmbeddingError as error:
            note = f"{error} The hashed embedding is used instead."
            return cls(take_snapshot(cases_folder, cache_dir, HASHED, private_folder), HASHED, note)

    def close(self) -> None:
        """Release and remove this process's copy; a second call does nothing."""
        self._store.close()
        self._snapshot.home.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def case(self, id: str) -> Case:
        """The whole case; raises ``CaseError`` if there is none of that id."""
        path = self._files.get(id)
        if path is None:
            raise CaseError(f"There is no case {id!r} in the library; `hermes-dx cases search` lists those there are.")
        case = parse_case(path, self._snapshot.contents[path])
        return case.model_copy(update={"private": id in self.private_ids})

    def search(self, query: CaseQuery, limit: int = 5, without: Collection[str] = ()) -> Recall:
        """The most similar cases, at most ``limit``, leaving out the ids in ``without``; or why there are none."""
        recall = self._ranker.answer(query, limit, without)
        hits = (replace(hit, file=str(self._files[hit.id])) if hit.private else hit for hit in recall.hits)
        return replace(recall, hits=tuple(hits))

    def _nearest(self, text: str, limit: int) -> Mapping[str, float]:
        """The vector ranker; without a vector the others go on alone, and a note says so once."""
        try:
            return self._store.nearest(text, limit)
        except EmbeddingError as error:
            note = f"{error} Cases are ranked without vectors."
            self.notes = (*self.notes, *(() if note in self.notes else (note,)))
            return {}
