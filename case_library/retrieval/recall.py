"""Recall of similar past cases by words, by vectors and by the signature of the findings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from case_library.library import BUNDLED_CASES, CaseError, parse_case
from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice, EmbeddingError
from case_library.retrieval.query import CaseHit, CaseQuery, Recall

if TYPE_CHECKING:
    from case_library.retrieval.cards import CaseCard
    from case_library.retrieval.chroma_store import ChromaStore
    from case_library.retrieval.snapshot import Snapshot
    from case_library.schema import Case

__all__ = ["CaseHit", "CaseIndex", "CaseQuery", "Recall"]


class CaseIndex:
    """The cases of one folder, ready to be searched; use ``open`` and, when done, ``close``.

    ``notes`` says what happened to the cache and the embedding, if anything did, on opening or later.
    ``private_ids`` are the cases of the team.
    """

    def __init__(
        self, snapshot: Snapshot, cards: Sequence[CaseCard], store: ChromaStore, close_angle: float, note: str = ""
    ) -> None:
        from case_library.retrieval.ranker import CaseRanker

        self.notes = (*snapshot.notes, note) if note else snapshot.notes
        self._snapshot = snapshot
        self._cards = {card.id: card for card in cards}
        self.private_ids = frozenset(card.id for card in cards if card.private)
        self._private_files = {path.stem: path for path in snapshot.contents if path.stem in self.private_ids}
        self._store = store
        self._ranker = CaseRanker(cards, self._nearest, close_angle=close_angle)

    @classmethod
    def open(
        cls,
        cases_folder: Path = BUNDLED_CASES,
        cache_dir: Path | None = None,
        private_folder: Path | None = None,
        embedding: EmbeddingChoice = HASHED,
    ) -> Self:
        """Open the index of a folder of cases and of a team's private ones beside it.

        Without ``cache_dir`` it is built for this process alone. ``notes`` name private files that were left out, and
        say so if the embedding cannot be used and the hashed one stands in for it.
        Raises ``CaseError`` if a case file is not right, ``CaseIndexError`` if Chroma fails.
        """
        try:
            return cls._opened(cases_folder, cache_dir, private_folder, embedding)
        except EmbeddingError as error:
            note = f"{error} The hashed embedding is used instead."
            return cls._opened(cases_folder, cache_dir, private_folder, HASHED, note)

    @classmethod
    def _opened(
        cls,
        cases_folder: Path,
        cache_dir: Path | None,
        private_folder: Path | None,
        choice: EmbeddingChoice,
        note: str = "",
    ) -> Self:
        from case_library.retrieval.chroma_store import open_store
        from case_library.retrieval.embedding_choice import reopened
        from case_library.retrieval.snapshot import EMBEDDING, STORE, read_cards, take_snapshot

        snapshot = take_snapshot(cases_folder, cache_dir, choice, private_folder)
        stored = json.loads((snapshot.folder / EMBEDDING).read_text(encoding="utf-8"))
        embedding = reopened(choice, stored)
        store = open_store(snapshot.folder / STORE, embedding)
        return cls(snapshot, read_cards(snapshot.folder), store, embedding.close_angle, note)

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
        for path, content in self._snapshot.contents.items():
            if path.stem == id:
                private = id in self._cards and self._cards[id].private
                return parse_case(path, content).model_copy(update={"private": private})
        raise CaseError(f"There is no case {id!r} in the library; `hermes-dx cases search` lists those there are.")

    def search(self, query: CaseQuery, limit: int = 5, without: Collection[str] = ()) -> Recall:
        """The most similar cases, at most ``limit``, leaving out the ids in ``without``; or why there are none."""
        recall = self._ranker.answer(query, limit, without)
        return replace(recall, hits=tuple(map(self._with_file, recall.hits)))

    def _nearest(self, text: str, limit: int) -> Mapping[str, float]:
        """The vector ranker; without a vector the others go on alone, and a note says so once."""
        try:
            return self._store.nearest(text, limit)
        except EmbeddingError as error:
            note = f"{error} Cases are ranked without vectors."
            self.notes = (*self.notes, *(() if note in self.notes else (note,)))
            return {}

    def _with_file(self, hit: CaseHit) -> CaseHit:
        return replace(hit, file=str(self._private_files[hit.id])) if hit.private else hit
