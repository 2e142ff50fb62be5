"""A fingerprint of a file's bytes, cached for as long as the file has not been touched."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from pathlib import Path

from tools.documents import parse_json
from tools.errors import InputError
from tools.leftovers import write_whole

RACY_NS = 2 * 10**9  # a file changed this shortly before it was hashed may change again within one clock tick
DIGEST_BYTES = 20
STAMP_FOLDER = "stamps"


def digest(path: Path, cache_dir: Path | None) -> str:
    """Hex fingerprint of the file's bytes; raises ``InputError`` when it cannot be read."""
    try:
        stamp = _stamp(path)
        if known := _recall(path, cache_dir, stamp):
            return known
        with path.open("rb") as file:
            value = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)).hexdigest()
        if _stamp(path) == stamp:
            _remember(path, cache_dir, stamp, value)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}); check its path and permissions"
        ) from error
    return value


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # a pipe would block, a device never end
        raise InputError(f"{path}: is a pipe, a socket or a device and not a file; it was not read")
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _stamp_file(path: Path, cache_dir: Path) -> Path:
    name = hashlib.blake2b(os.fsencode(path.absolute()), digest_size=DIGEST_BYTES).hexdigest()
    return cache_dir / STAMP_FOLDER / name


def _recall(path: Path, cache_dir: Path | None, stamp: list[int]) -> str:
    if cache_dir is None:
        return ""
    try:
        entry = parse_json(_stamp_file(path, cache_dir).read_text("utf-8"))
    except (OSError, ValueError):
        return ""
    value = entry.get("digest") if isinstance(entry, dict) and entry.get("stamp") == stamp else None
    return value if isinstance(value, str) else ""


def _remember(path: Path, cache_dir: Path | None, stamp: list[int], value: str) -> None:
    """Write the fingerprint down, unless the file is so fresh that a later change might leave the stamp the same."""
    if cache_dir is None or time.time_ns() - max(stamp[1], stamp[2]) < RACY_NS:
        return
    write_whole(_stamp_file(path, cache_dir), [json.dumps({"stamp": stamp, "digest": value}).encode()])
