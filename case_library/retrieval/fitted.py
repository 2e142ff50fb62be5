"""The reader of questions as it is shipped; ``python -m case_library.retrieval.fitted --write`` fits it."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from case_library.retrieval.asked import CauseReader, asked_lines
from tools.knowledge.taxonomy import causes

PACKAGE = "case_library.retrieval"
FITTED = Path(__file__).with_name("asked.npz")
NAMED = 3  # lines that the name of a cause or of a mechanism counts as: it is what people type who know it
FITTED_FROM = ("asked.txt", "lexicon.txt", "thesaurus.txt", "filler.txt")
LEVELS = 127  # weights are stored in one byte each, as a share of the greatest of their cause


def source_key() -> str:
    """Return a key of the files that the reader is fitted on."""
    digest = hashlib.sha256()
    for name in FITTED_FROM:
        digest.update(hashlib.sha256(files(PACKAGE).joinpath(name).read_bytes()).digest())
    digest.update(repr(names()).encode())
    return digest.hexdigest()


def names() -> dict[str, list[str]]:
    """Return the names of each cause and its mechanisms, as words."""
    return {each.id: [name.replace("_", " ") for name in (each.id, *each.mechanisms)] for each in causes().values()}


def fitted() -> CauseReader:
    """Return the reader of what people ask and of the names of the taxonomy."""
    named = names()
    return CauseReader.fit({cause: [*lines, *(named.get(cause, []) * NAMED)] for cause, lines in asked_lines().items()})


def save(reader: CauseReader, path: Path, key: str) -> None:
    """Write a reader as plain arrays."""
    scale = np.maximum(np.abs(reader.weights).max(axis=0, initial=0.0), np.finfo(np.float32).tiny)
    np.savez_compressed(
        path,
        weights=np.rint(reader.weights / scale * LEVELS).astype(np.int8),
        scale=(scale / LEVELS).astype(np.float32),
        rarity=np.array([*reader.rarity.values(), reader.rarest], dtype=np.float32),
        features=_letters(reader.rarity),
        causes=_letters(reader.causes),
        key=_letters([key]),
    )


def load(path: Path) -> CauseReader:
    """Return the reader that ``save`` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        *rarity, rarest = stored["rarity"].tolist()
        weights = stored["weights"].astype(np.float32) * stored["scale"]
        names, causes = _names(stored["features"]), _names(stored["causes"])
    return CauseReader(causes, dict(zip(names, rarity, strict=True)), rarest, weights)


def stored_key(path: Path = FITTED) -> str:
    """Return the key of the files that a stored reader was fitted on."""
    with np.load(path, allow_pickle=False) as stored:
        return _names(stored["key"])[0]


@cache
def cause_reader() -> CauseReader:
    """Return the reader that comes with the library, read once in a process."""
    return load(FITTED)


def _letters(names: Iterable[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(names).encode(), dtype=np.uint8)


def _names(letters: NDArray[np.uint8]) -> tuple[str, ...]:
    return tuple(letters.tobytes().decode().split("\n"))


def main() -> None:
    """Fit the reader and write it, or say whether the one there is of the files as they are."""
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}.fitted", description=__doc__)
    parser.add_argument("--write", action="store_true", help="fit and write; without it only compare")
    if parser.parse_args().write:
        save(fitted(), FITTED, source_key())
    elif stored_key() != source_key():
        raise SystemExit(f"{FITTED.name} is of other files than {', '.join(FITTED_FROM)}; run it with --write.")


if __name__ == "__main__":
    main()
