"""Recall of similar past cases by words, by vectors and by the signature of the findings."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Self

from case_library import library
from case_library.library import BUNDLED_CASES, CaseError
from case_library.retrieval import embedding_choice
from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice, EmbeddingError
from case_library.retrieval.query import CaseCard, CaseHit, CaseQuery, Recall, card_of, document
from tools.documents import parse_json
from tools.leftovers import HeldFolder, private_folder, remove_leftovers

if TYPE_CHECKING:
    from case_library.schema import Case

__all__ = ["CaseHit", "CaseIndex", "CaseQuery", "Recall"]

LAYOUT_VERSION = 8
CACHED = 4  # indexes that stay in the cache, the newest
MANIFEST = "manifest.json"
CARDS = "cards.json"
EMBEDDING = "embedding.json"
LEFT_OUT = "left_out.json"
STORE = "chroma"
READ_BY_INDEX = (
    ("tools.knowledge", "causes.yaml"),
    ("case_library.retrieval", "lexicon.txt"),
    ("case_library.retrieval", "thesaurus.txt"),
    ("case_library.retrieval", "filler.txt"),
)


@dataclass(frozen=True)
class Snapshot:
    """A private copy of the index.

    ``notes`` are sentences for people about cases that were left out, ``cache_notes`` about the cache alone.
    """

    home: HeldFolder
    contents: Mapping[Path, bytes]
    notes: tuple[str, ...]
    cache_notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder of the copy until it is closed."""
        return self.home.path / "index"

    def cards(self) -> tuple[CaseCard, ...]:
        """The cards of the cases in id order."""
        rows = parse_json((self.folder / CARDS).read_text(encoding="utf-8"))
        return tuple(CaseCard(**{**row, "signals": tuple(row["signals"])}) for row in rows)


def take_snapshot(
    cases_folder: Path,
    cache_dir: Path | None,
    embedding: EmbeddingChoice = HASHED,
    private_folder: Path | None = None,
) -> Snapshot:
    """Return a private copy of the cached index, built where none is whole; private files with faults become notes.

    Raises ``CaseError`` for a public case with a fault, ``EmbeddingError`` if the embedding cannot be used.
    """
    own = library.private_contents(private_folder)
    contents = {path: library.read_case_bytes(path) for path in library.case_files(cases_folder)} | own
    remove_leftovers(cache_dir)
    home = HeldFolder()
    target = home.path / "index"
    notes: list[str] = []
    cached = None if cache_dir is None else cache_dir / "case-index" / index_key(contents, embedding, own)
    if cached is None:
        _build(target, contents, own, embedding)
    elif not (existed := cached.is_dir()) or not _copy_whole(cached, target):
        shutil.rmtree(target, ignore_errors=True)
        _build(target, contents, own, embedding)
        if existed:
            notes.append(f"The case index in {cached} was damaged; it has been rebuilt from the case files.")
        notes += _publish(target, cached)
    left_out = parse_json((target / LEFT_OUT).read_text(encoding="utf-8"))
    return Snapshot(home, contents, tuple(left_out), tuple(notes))


def index_key(contents: Mapping[Path, bytes], embedding: EmbeddingChoice = HASHED, own: Collection[Path] = ()) -> str:
    """Return a key of all that makes the index: cases, taxonomy, lexicon, embedding, layout and Chroma's version."""
    from case_library.retrieval.chroma_store import chroma

    digest = hashlib.sha256()
    parts = [f"{LAYOUT_VERSION} {embedding_choice.version(embedding)} {chroma().__version__}".encode()]
    parts += [files(package).joinpath(name).read_bytes() for package, name in READ_BY_INDEX]
    for path, content in contents.items():
        parts += [b"private" if path in own else b"", path.name.encode(), content]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:32]


def _build(folder: Path, contents: Mapping[Path, bytes], own: Mapping[Path, bytes], choice: EmbeddingChoice) -> None:
    from case_library.retrieval.chroma_store import build_store

    public, cards = _parsed(tuple((path, content) for path, content in contents.items() if path not in own))
    private = library.parse_private(own, {case.id for case in public})
    cases = [*public, *private.cases]
    embedded = cases if choice.embeds_private else public
    texts = [document(case) for case in embedded]
    stored = embedding_choice.stored_weights(choice, texts)
    embedding = embedding_choice.open_embedding(choice, stored)
    (folder / STORE).mkdir(parents=True)
    build_store(folder / STORE, embedding, [case.id for case in embedded], texts)
    _write_json(folder / CARDS, [vars(card) for card in (*cards, *map(card_of, private.cases))])
    _write_json(folder / EMBEDDING, stored)
    _write_json(folder / LEFT_OUT, private.left_out)
    _write_json(folder / MANIFEST, _checksums(folder))


@lru_cache(maxsize=1)  # an evaluation builds the index of the same files again and again
def _parsed(files: tuple[tuple[Path, bytes], ...]) -> tuple[tuple[Case, ...], tuple[CaseCard, ...]]:
    """The cases of the files and their cards, in order."""
    cases = tuple(library.parse_case(path, content) for path, content in files)
    return cases, tuple(map(card_of, cases))


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")


def _checksums(folder: Path) -> dict[str, str]:
    inside = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in inside}


def _copy_whole(cached: Path, target: Path) -> bool:
    """Copy first and check the copy, so that no other process can change what was checked."""
    with suppress(OSError):
        shutil.copytree(cached, target)
        return _is_whole(target)
    return False


def _is_whole(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        return bool(parse_json((folder / MANIFEST).read_text(encoding="utf-8")) == _checksums(folder))
    return False


def _publish(built: Path, cached: Path) -> tuple[str, ...]:
    """Put a copy into the cache in one step; the first of two processes wins."""
    try:
        private_folder(cached.parent)
        with HeldFolder(cached.parent) as place:
            shutil.copytree(built, place.path / "new")
            if cached.exists() and not _is_whole(cached):
                cached.rename(place.path / "damaged")
            if not cached.exists():
                (place.path / "new").rename(cached)
        others = [path for path in cached.parent.iterdir() if path != cached and not path.name.startswith(".")]
        for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[CACHED - 1 :]:
            shutil.rmtree(path, ignore_errors=True)
    except OSError as error:
        if _is_whole(cached):
            return ()
        reason = error.strerror or type(error).__name__
        return (f"The case index cannot be cached in {cached.parent} ({reason}); it is built again each time.",)
    return ()


class CaseIndex:
    """The cases of one folder, ready to be searched; ``notes`` report trouble with cases, embedding or cache."""

    def __init__(self, snapshot: Snapshot, choice: EmbeddingChoice, note: str = "") -> None:
        from case_library.retrieval.chroma_store import ChromaStore
        from case_library.retrieval.ranker import CaseRanker

        stored = parse_json((snapshot.folder / EMBEDDING).read_text(encoding="utf-8"))
        embedding = embedding_choice.open_embedding(choice, stored)
        cards = snapshot.cards()
        self.notes = (*snapshot.notes, note) if note else snapshot.notes
        self.cache_notes = snapshot.cache_notes
        self.private_ids = frozenset(card.id for card in cards if card.private)
        self._snapshot = snapshot
        # The public ones come first: a private one of the same id is left out.
        self._files = {path.stem: path for path in reversed(tuple(snapshot.contents))}
        self._store = ChromaStore(snapshot.folder / STORE, embedding)
        self._ranker = CaseRanker(cards, self._nearest)

    @classmethod
    def open(
        cls,
        cases_folder: Path = BUNDLED_CASES,
        cache_dir: Path | None = None,
        private_folder: Path | None = None,
        embedding: EmbeddingChoice = HASHED,
    ) -> Self:
        """Open the index; without ``cache_dir`` it is built for this process alone. ``notes`` name what was left out.

        Raises ``CaseError`` if a case file is not right, ``CaseIndexError`` if Chroma fails.
        """
        try:
            return cls(take_snapshot(cases_folder, cache_dir, embedding, private_folder), embedding)
        except EmbeddingError as error:
            note = f"{error} The hashed embedding is used instead."
            return cls(take_snapshot(cases_folder, cache_dir, HASHED, private_folder), HASHED, note)

    def close(self) -> None:
        """Release and remove this process's copy; a second call does nothing."""
        self._store.close()
        self._snapshot.home.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def case(self, id: str) -> Case:
        """The whole case; raises ``CaseError`` if there is none of that id."""
        path = self._files.get(id)
        if path is None:
            raise CaseError(f"There is no case {id!r} in the library; `hermes-dx cases search` lists those there are.")
        case = library.parse_case(path, self._snapshot.contents[path])
        return case.model_copy(update={"private": id in self.private_ids})

    def search(self, query: CaseQuery, limit: int = 5, without: Collection[str] = ()) -> Recall:
        """The most similar cases, at most ``limit``, leaving out the ids in ``without``; or why there are none."""
        recall = self._ranker.answer(query, limit, without)
        hits = (replace(hit, file=str(self._files[hit.id])) if hit.private else hit for hit in recall.hits)
        return replace(recall, hits=tuple(hits))

    def _nearest(self, text: str, limit: int) -> Mapping[str, float]:
        """The vector ranker; where it fails the others rank alone, and a note says so once."""
        try:
            return self._store.nearest(text, limit)
        except EmbeddingError as error:
            note = f"{error} Cases are ranked without vectors."
            self.notes = tuple(dict.fromkeys((*self.notes, note)))
            return {}
