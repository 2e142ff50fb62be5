"""Recall of similar past cases by words, by vectors and by the signature of the findings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from case_library.cards import CaseCard, cause_text
from case_library.fusion import SETTING_WEIGHT, SIGNATURE_WEIGHT, TAIL, Closeness, abstention, closeness, fuse, ranks
from case_library.lexical import LexicalIndex, LexicalMatch
from case_library.library import BUNDLED_CASES, CaseError, parse_case
from case_library.query import CaseHit, CaseQuery, Recall
from case_library.signals import SignatureMatch, compare_signature, shared_signals
from case_library.words import surface_forms, terms

if TYPE_CHECKING:
    from case_library.chroma_store import ChromaStore
    from case_library.schema import Case
    from case_library.snapshot import Snapshot

__all__ = ["CaseHit", "CaseIndex", "CaseQuery", "Recall"]

NEAREST = 200
NO_MATCH = LexicalMatch(0.0, 0.0, ())


@dataclass(frozen=True)
class _Ranking:
    """All that the rankers said of one query; every mapping is by case id."""

    lexical: Mapping[str, LexicalMatch]
    signature: Mapping[str, SignatureMatch]
    places: Mapping[str, Mapping[str, int]]
    close: Mapping[str, Closeness]
    order: tuple[str, ...]


class CaseIndex:
    """The cases of one folder, ready to be searched; use ``open`` and, when done, ``close``.

    ``notes`` says what happened to the cache on opening, if anything did.
    """

    def __init__(self, snapshot: Snapshot, cards: Collection[CaseCard], store: ChromaStore) -> None:
        self.notes = snapshot.notes
        self._snapshot = snapshot
        self._cards = {card.id: card for card in cards}
        self._store = store
        self._lexical = LexicalIndex({card.id: card.counts for card in cards})

    @classmethod
    def open(cls, cases_folder: Path = BUNDLED_CASES, cache_dir: Path | None = None) -> Self:
        """Open the index of a folder of cases; without ``cache_dir`` it is built for this process alone.

        Raises ``CaseError`` if a case file is not right, ``CaseIndexError`` if Chroma fails.
        """
        from case_library.chroma_store import open_store
        from case_library.embedding import HashedTextEmbedding
        from case_library.snapshot import EMBEDDING, STORE, read_cards, take_snapshot

        snapshot = take_snapshot(cases_folder, cache_dir)
        config = json.loads((snapshot.folder / EMBEDDING).read_text(encoding="utf-8"))
        store = open_store(snapshot.folder / STORE, HashedTextEmbedding.build_from_config(config))
        return cls(snapshot, read_cards(snapshot.folder), store)

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
                return parse_case(path, content)
        raise CaseError(f"There is no case {id!r} in the library; `hermes-dx cases search` lists those there are.")

    def search(self, query: CaseQuery, limit: int = 5, without: Collection[str] = ()) -> Recall:
        """The most similar cases, at most ``limit``, leaving out the ids in ``without``; or why there are none."""
        asked = terms(query.words)
        if not asked and not query.has_signature:
            return Recall((), "The question names no symptom, signal or cause to compare with.")
        ranking = self._rank(query, asked, without)
        reason = abstention(
            [ranking.close[name] for name in ranking.order[:3]],
            [self._cards[name].cause for name in ranking.order[:3]],
        )
        if reason:
            return Recall((), reason)
        floor = TAIL * ranking.close[ranking.order[0]].similarity
        chosen = [name for name in ranking.order if ranking.close[name].similarity >= floor][: max(limit, 0)]
        words = surface_forms(query.words)
        return Recall(tuple(self._hit(ranking, name, words) for name in chosen))

    def _rank(self, query: CaseQuery, asked: list[str], without: Collection[str]) -> _Ranking:
        cards = [card for name, card in self._cards.items() if name not in without]
        families = {card.family for card in self._cards.values() if card.cause in query.causes}
        # With no words of its own the query borrows the taxonomy's, which only order cases of equal signature.
        text = query.words if asked else "\n".join((*map(cause_text, query.causes), *query.mechanisms))
        signature = {card.id: compare_signature(query, card, families) for card in cards}
        lexical = {name: match for name, match in self._lexical.rank(terms(text)).items() if name not in without}
        cosine = {name: value for name, value in self._nearest(text).items() if name not in without}
        place = set(terms(f"{query.framework} {query.hardware}"))
        places = {
            "signature": ranks({name: match.score for name, match in signature.items()}),
            "words": ranks({name: match.bm25 for name, match in lexical.items()}),
            "vector": ranks(cosine),
            "setting": ranks({card.id: len(place.intersection(terms(card.setting))) for card in cards}),
        }
        weights = {"signature": SIGNATURE_WEIGHT, "setting": SETTING_WEIGHT}
        fused = fuse([(ranking, weights.get(ranker, 1.0)) for ranker, ranking in places.items()])
        unit = self._lexical.rarity_of_one
        total = sum(self._lexical.rarity(term) for term in set(asked)) / unit
        gains = {name: match.gain / unit for name, match in lexical.items()} if asked else {}
        close = {
            name: closeness(gains.get(name, 0.0), total, cosine.get(name, 0.0), match.score, query.has_signature)
            for name, match in signature.items()
        }
        order = sorted(fused, key=lambda name: (-round(close[name].similarity, 3), -fused[name], name))
        return _Ranking(lexical, signature, places, close, tuple(order))

    def _nearest(self, text: str) -> dict[str, float]:
        return self._store.nearest(text, NEAREST) if terms(text) else {}

    def _hit(self, ranking: _Ranking, name: str, words: Mapping[str, str]) -> CaseHit:
        card = self._cards[name]
        shared = shared_signals(words, card, self._lexical.rarity)
        similarity = round(ranking.close[name].similarity, 3)
        why = _why(ranking, name, words)
        return CaseHit(card.id, card.title, card.url, card.cause, card.family, similarity, shared, why)


def _why(ranking: _Ranking, name: str, words: Mapping[str, str]) -> str:
    reasons = [ranking.signature[name].reason] if ranking.signature[name].reason else []
    matched = [words[term] for term in ranking.lexical.get(name, NO_MATCH).matched if term in words]
    if matched:
        reasons.append("words in common: " + ", ".join(matched[:5]))
    placed = [f"{ranker} {places[name]}" for ranker, places in ranking.places.items() if name in places]
    return "; ".join([*reasons, "ranked " + ", ".join(placed)])
