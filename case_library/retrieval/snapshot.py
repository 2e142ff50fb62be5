"""The case index on disk: built from the case files, cached by content, read by each process from its own copy."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

from case_library.library import case_files, parse_case, parse_private, private_contents, read_case_bytes
from case_library.retrieval.cards import CaseCard, card_of, document
from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice, fitted, version

LAYOUT_VERSION = 4
KEPT = 4
MANIFEST = "manifest.json"
CARDS = "cards.json"
EMBEDDING = "embedding.json"
LEFT_OUT = "left_out.json"
STORE = "chroma"


@dataclass(frozen=True)
class Snapshot:
    """A private copy of the index; ``notes`` tell what a person should know of how it came about."""

    home: tempfile.TemporaryDirectory[str]
    contents: Mapping[Path, bytes]
    notes: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where the copy lies until it is closed."""
        return Path(self.home.name) / "index"


def take_snapshot(
    cases_folder: Path,
    cache_dir: Path | None,
    embedding: EmbeddingChoice = HASHED,
    private_folder: Path | None = None,
) -> Snapshot:
    """A private copy of the cached index of a folder; built, and cached for others, where there is none that is whole.

    Raises ``CaseError`` if a case file that has to be indexed is not right; a private one that is not is left out, and
    the notes say so. Raises ``EmbeddingError`` if the embedding chosen cannot be used.
    """
    own = private_contents(private_folder)
    contents = {path: read_case_bytes(path) for path in case_files(cases_folder)} | own
    home = tempfile.TemporaryDirectory(prefix="hermes-cases-")
    target = Path(home.name) / "index"
    if cache_dir is None:
        _build(target, contents, own, embedding)
        return Snapshot(home, contents, _left_out(target))
    cached = cache_dir / "case-index" / index_key(contents, embedding, own)
    existed = cached.is_dir()
    if existed and _copy_whole(cached, target):
        return Snapshot(home, contents, _left_out(target))
    shutil.rmtree(target, ignore_errors=True)
    _build(target, contents, own, embedding)
    notes = [f"The case index in {cached} was damaged; it has been rebuilt from the case files."] if existed else []
    return Snapshot(home, contents, (*notes, *_publish(target, cached), *_left_out(target)))


def index_key(contents: Mapping[Path, bytes], embedding: EmbeddingChoice = HASHED, own: Collection[Path] = ()) -> str:
    """Changes with any case and which are private, the taxonomy, the lexicon, the embedding, the layout or Chroma's."""
    import chromadb

    digest = hashlib.sha256()
    taxonomy = files("tools.knowledge").joinpath("causes.yaml").read_bytes()
    lexicon = files("case_library.retrieval").joinpath("lexicon.txt").read_bytes()
    versions = f"{LAYOUT_VERSION} {version(embedding)} {chromadb.__version__}".encode()
    for part in (versions, taxonomy, lexicon, *_pieces(contents, own)):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:32]


def _pieces(contents: Mapping[Path, bytes], own: Collection[Path]) -> Iterator[bytes]:
    for path, content in contents.items():
        yield b"private" if path in own else b""
        yield path.name.encode()
        yield content


def _left_out(folder: Path) -> tuple[str, ...]:
    return tuple(json.loads((folder / LEFT_OUT).read_text(encoding="utf-8")))


def read_cards(folder: Path) -> tuple[CaseCard, ...]:
    """The cards of a snapshot in id order."""
    rows = json.loads((folder / CARDS).read_text(encoding="utf-8"))
    return tuple(CaseCard(**{**row, "signals": tuple(row["signals"])}) for row in rows)


def _build(folder: Path, contents: Mapping[Path, bytes], own: Mapping[Path, bytes], choice: EmbeddingChoice) -> None:
    from case_library.retrieval.chroma_store import build_store

    public = [parse_case(path, content) for path, content in contents.items() if path not in own]
    private = parse_private(own, {case.id for case in public})
    cases = [*public, *private.cases]
    placed = cases if choice.embeds_private else public
    texts = [document(case) for case in placed]
    embedding, stored = fitted(choice, texts)
    (folder / STORE).mkdir(parents=True)
    build_store(folder / STORE, embedding, [case.id for case in placed], texts)
    _write_json(folder / CARDS, [asdict(card_of(case)) for case in cases])
    _write_json(folder / EMBEDDING, stored)
    _write_json(folder / LEFT_OUT, private.left_out)
    _write_json(folder / MANIFEST, _checksums(folder))


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")


def _checksums(folder: Path) -> dict[str, str]:
    inside = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in inside}


def _copy_whole(cached: Path, target: Path) -> bool:
    """Copy first and check the copy, so that no other process can change what was checked."""
    try:
        shutil.copytree(cached, target)
        manifest = json.loads((target / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(manifest == _checksums(target))


def _publish(built: Path, cached: Path) -> tuple[str, ...]:
    """Put a copy into the cache in one step; whoever comes second keeps the first one's."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=cached.parent) as place:
            shutil.copytree(built, Path(place) / "new")
            if cached.exists() and not _is_whole(cached):
                cached.rename(Path(place) / "damaged")
            if not cached.exists():
                (Path(place) / "new").rename(cached)
        _prune(cached)
    except OSError as error:
        if _is_whole(cached):
            return ()
        reason = error.strerror or type(error).__name__
        return (f"The case index cannot be kept in {cached.parent} ({reason}); it is built anew each time.",)
    return ()


def _is_whole(cached: Path) -> bool:
    try:
        return bool(json.loads((cached / MANIFEST).read_text(encoding="utf-8")) == _checksums(cached))
    except (OSError, ValueError):
        return False


def _prune(current: Path) -> None:
    others = [path for path in current.parent.iterdir() if path != current and not path.name.startswith(".")]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
