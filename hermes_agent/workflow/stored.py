"""Diagnoses kept between calls: a stored one is used only when nothing that could change it has changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path

from hermes_agent.locations.places import place
from hermes_agent.model.diagnosis import SCHEMA, Diagnosis
from hermes_agent.model.request import Request
from tools.documents import parse_json
from tools.errors import InputError
from tools.leftovers import write_whole
from tools.sources.digest import digest
from tools.sources.inventory import take_inventory
from tools.sources.options import Limits
from tools.sources.registry import record_formats

CODE = ("tools", "hermes_agent", "case_library")
KEPT = 256  # stored diagnoses; the oldest go first


def key(request: Request) -> str:
    """Names everything a diagnosis depends on: the files' content, the request, the code and the case library."""
    parts: list[object] = [
        _contents(request.paths, request),
        _contents(request.baseline, request),
        request.log_pattern,
        request.steps,
        request.ranks,
        sorted(request.thresholds.items()),
        code_fingerprint(),
        _own_cases(request.private_cases),
        repr(request.embedding),
    ]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def adds_files(known: Sequence[Path], more: Sequence[Path]) -> bool:
    """Return whether a run that is read from ``known`` has files at ``more`` that are not read yet."""
    if not more:
        return False
    return set(take_inventory([*known, *more], Limits()).files) > set(take_inventory(known, Limits()).files)


def _own_cases(folder: Path | None) -> list[object]:
    """Name, size and time of a team's own cases; their content may be on a diagnosis that recalled them.

    A folder without cases changes no diagnosis, wherever it is.
    """
    if folder is None:
        return []
    try:
        known = [(path.name, path.stat()) for path in folder.glob("*.yaml")]
    except OSError:
        return [str(folder)]
    cases = sorted((name, status.st_size, status.st_mtime_ns) for name, status in known)
    return [str(folder), *cases] if cases else []


def _contents(paths: tuple[Path, ...], request: Request) -> list[object]:
    """The files as they will be named and their content, and what the report will say was passed over."""
    if not paths:
        return []
    found = take_inventory(paths, Limits(), record_formats(request.log_pattern))
    return [[(str(path), _digest(path, request.cache_dir)) for path in found.files], found.notes]


def _digest(path: Path, cache_dir: Path | None) -> str:
    try:
        return digest(path, cache_dir)
    except InputError as error:  # it will be left out, and the report says why
        return str(error)


@cache
def code_fingerprint() -> str:
    """Return what changes whenever a file of the analysis, its tables or the cases does, as of the first call."""
    seen = hashlib.blake2b(digest_size=16)
    for package in CODE:
        root = Path(str(files(package)))
        for folder, _, names in sorted(os.walk(root)):
            if folder.endswith("__pycache__"):
                continue
            for name in sorted(names):
                try:
                    status = (Path(folder) / name).stat()
                except OSError:
                    continue  # an editor's lock or a file that just went
                seen.update(os.fsencode(f"{folder}/{name}:{status.st_size}:{status.st_mtime_ns}"))
    return seen.hexdigest()


def find(cache_dir: Path, name: str) -> Diagnosis | None:
    """The stored diagnosis of that key; None when there is none, or it is damaged or of another schema."""
    try:
        diagnosis = Diagnosis.model_validate_json(_stored(cache_dir, name).read_bytes())
    except (OSError, ValueError):
        return None
    return diagnosis if diagnosis.schema_ == SCHEMA else None


def keep(cache_dir: Path, name: str, request: Request, diagnosis: Diagnosis) -> bool:
    """Store a diagnosis and its request, unless its files changed meanwhile; False where the folder refuses."""
    if key(request) != name:
        return True
    if not write_whole(_stored(cache_dir, name), [diagnosis.model_dump_json(by_alias=True).encode()]):
        return False
    remember(cache_dir, name, request)
    _prune(cache_dir / "diagnoses")
    return True


def remember(cache_dir: Path, name: str, request: Request) -> None:
    """Make this the latest diagnosis of the working directory, which ``show`` uses when no run is named."""
    latest = {
        "key": name,
        "paths": [str(path.resolve()) for path in request.paths],
        "baseline": [str(path.resolve()) for path in request.baseline],
        "steps": request.steps,
        "ranks": request.ranks,
        "log_pattern": request.log_pattern,
        "summaries": request.summaries and _absolute(request.summaries),
    }
    write_whole(latest_path(cache_dir), [json.dumps(latest).encode()])
    _prune(cache_dir / "latest")


def latest(cache_dir: Path) -> tuple[str, Request] | None:
    """Return key and request of the latest diagnosis made in this working directory; None when there is none."""
    try:
        stored = parse_json(latest_path(cache_dir).read_text(encoding="utf-8"))
        request = Request(
            paths=tuple(Path(path) for path in stored["paths"]),
            baseline=tuple(Path(path) for path in stored["baseline"]),
            steps=None if stored["steps"] is None else (int(stored["steps"][0]), int(stored["steps"][1])),
            ranks=tuple(int(rank) for rank in stored["ranks"]),
            summaries=str(stored.get("summaries", "")),
            cache_dir=cache_dir,
            log_pattern=str(stored.get("log_pattern", "")),
        )
        return str(stored["key"]), request
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _absolute(where: str) -> str:
    return str(found.resolve()) if isinstance(found := place(where), Path) else where


def latest_path(cache_dir: Path) -> Path:
    """Return the file that names the latest diagnosis of the working directory."""
    try:
        here = str(Path.cwd())
    except OSError:  # the directory was removed
        here = ""
    return cache_dir / "latest" / f"{hashlib.blake2b(os.fsencode(here), digest_size=12).hexdigest()}.json"


def _prune(folder: Path) -> None:
    with suppress(OSError):  # another process may be clearing the same folder
        files_kept = [path for path in folder.iterdir() if path.suffix == ".json"]
        for path in sorted(files_kept, key=lambda path: path.stat().st_mtime)[:-KEPT]:
            path.unlink(missing_ok=True)


def _stored(cache_dir: Path, name: str) -> Path:
    return cache_dir / "diagnoses" / f"{name}.json"
