"""Diagnoses kept between calls: a stored one is used only when nothing that could change it has changed."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from hermes_agent.report.diagnosis import Diagnosis
from hermes_agent.workflow.request import Request
from tools.sources.digest import digest
from tools.sources.discover import discover
from tools.sources.options import Limits

CODE = ("tools", "hermes_agent", "case_library")
KEPT = 256  # stored diagnoses; the oldest go first


def key(request: Request) -> str:
    """Names everything a diagnosis depends on: the files' content, the request, the code and the case library."""
    parts: list[object] = [
        _contents(request.paths, request.cache_dir),
        _contents(request.baseline, request.cache_dir),
        request.steps,
        request.ranks,
        sorted(request.thresholds.items()),
        code_fingerprint(),
    ]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _contents(paths: tuple[Path, ...], cache_dir: Path | None) -> list[tuple[str, str]]:
    if not paths:
        return []
    return [(str(path), digest(path, cache_dir)) for path in discover(paths, Limits()).files]


def code_fingerprint() -> str:
    """Changes whenever a file of the analysis, its tables or the cases changes."""
    seen = hashlib.blake2b(digest_size=16)
    for package in CODE:
        root = Path(str(files(package)))
        for folder, _, names in sorted(os.walk(root)):
            if folder.endswith("__pycache__"):
                continue
            for name in sorted(names):
                status = (Path(folder) / name).stat()
                seen.update(f"{folder}/{name}:{status.st_size}:{status.st_mtime_ns}".encode())
    return seen.hexdigest()


def find(cache_dir: Path, name: str) -> Diagnosis | None:
    """The stored diagnosis of that key; None when there is none or it is damaged."""
    try:
        return Diagnosis.model_validate_json((_folder(cache_dir) / f"{name}.json").read_bytes())
    except (OSError, ValidationError):
        return None


def keep(cache_dir: Path, name: str, request: Request, diagnosis: Diagnosis) -> None:
    """Stores a diagnosis and the request it answers, whole or not at all."""
    folder = _folder(cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"{name}.json", diagnosis.model_dump_json(by_alias=True))
    remember(cache_dir, name, request)
    kept = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-KEPT]:
        path.unlink(missing_ok=True)


def remember(cache_dir: Path, name: str, request: Request) -> None:
    """Makes this the latest diagnosis, which ``show`` and ``ask`` fall back to."""
    latest = {
        "key": name,
        "paths": [str(path.resolve()) for path in request.paths],
        "baseline": [str(path.resolve()) for path in request.baseline],
        "steps": request.steps,
        "ranks": request.ranks,
    }
    _write(cache_dir / "latest.json", json.dumps(latest))


def latest(cache_dir: Path) -> tuple[str, Request] | None:
    """Key and request of the latest diagnosis; None when there is none."""
    try:
        stored = json.loads((cache_dir / "latest.json").read_text(encoding="utf-8"))
        request = Request(
            paths=tuple(Path(path) for path in stored["paths"]),
            baseline=tuple(Path(path) for path in stored["baseline"]),
            steps=None if stored["steps"] is None else (int(stored["steps"][0]), int(stored["steps"][1])),
            ranks=tuple(int(rank) for rank in stored["ranks"]),
            cache_dir=cache_dir,
        )
        return str(stored["key"]), request
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _folder(cache_dir: Path) -> Path:
    return cache_dir / "diagnoses"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    Path(file.name).replace(path)
